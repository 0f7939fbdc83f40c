// A whole-file checksum in the first 512 bytes (HDF5's user block) of shards and checkpoints. The HDF5 library can
// crash on damaged files or accept them silently, so a file is checked here before the library opens it.
//
// The block is ASCII, zero padded: "bert_hpc KIND 1\nbytes N\ncrc32 XXXXXXXX\n", with N the size of the whole file and
// the CRC-32 (zlib's) of every byte after the block. Nothing in it depends on the time or the path.
#pragma once

#include <cstdint>
#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::io {

/// Size of the block; pass it to Hdf5File::create.
inline constexpr std::int64_t seal_bytes = 512;

enum class FileState { good, missing, foreign, truncated, damaged };

struct FileCheck {
  FileState state = FileState::good;
  std::string reason;  ///< one sentence without the path; empty when good
};

/// Fills the block of a closed file whose first seal_bytes are unused. `kind` is one word, e.g. "shard". Throws
/// Error(code) if the file cannot be read or written.
void seal(const std::string& path, const std::string& kind, core::ExitCode code = core::ExitCode::files);

/// Reads the whole file in blocks and compares size and checksum with the block.
FileCheck check_seal(const std::string& path, const std::string& kind);

/// Size and checksum as the block states them, "bytes N crc32 XXXXXXXX", without reading the rest; it identifies the
/// content of a file that has been checked. Throws Error(code) if there is no block.
std::string seal_text(const std::string& path, core::ExitCode code = core::ExitCode::files);

/// CRC-32 of the whole content of a file without a block. Throws Error(code) if it cannot be read.
std::uint32_t file_checksum(const std::string& path, core::ExitCode code);

/// Throws Error(code) with path and reason unless the file is good.
void verify(const std::string& path, const std::string& kind, core::ExitCode code);

/// Throws Error(code) if the path itself (not a parent folder) is a symbolic link.
void refuse_link(const std::string& path, core::ExitCode code);

}  // namespace bert_hpc::io
