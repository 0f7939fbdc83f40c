// A whole-file checksum in the first 512 bytes (HDF5's user block) of shards and checkpoints. The HDF5 library can
// crash on damaged files or accept them silently, so a file is checked here before the library opens it.
//
// The block is ASCII, zero padded: "bert_hpc KIND 1\nbytes N\ncrc32 XXXXXXXX\n", with N the size of the whole file and
// the CRC-32 (zlib's) of every byte after the block; and where the file has such a part "tail O crc32 XXXXXXXX\n", that
// of those three lines followed by the bytes from O on. Nothing in it depends on the time or the path.
//
// HDF5 has checksums of its own: of blocks of data where the writer asks for them, and of its metadata but for long
// attributes. A writer that writes attributes last can say where they begin, so that a reader may check the tail and
// leave the rest to the library.
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

/// Fills the block of a closed file whose first seal_bytes are unused. `kind` is one word, e.g. "shard". `tail`: where
/// attributes begin; 0: not stated. Throws Error(code) if the file cannot be read or written.
void seal(const std::string& path, const std::string& kind, core::ExitCode code = core::ExitCode::files,
          std::int64_t tail = 0);

/// What is compared with the block: size and tail, of a file without a tail everything; or everything, for which the
/// whole file is read.
enum class SealPart { tail, everything };

/// Compares a file with its block.
FileCheck check_seal(const std::string& path, const std::string& kind, SealPart part = SealPart::everything);

/// Size and checksum as the block states them, "bytes N crc32 XXXXXXXX", without reading the rest; it identifies the
/// content of a file that has been checked. Throws Error(code) if there is no block.
std::string seal_text(const std::string& path, core::ExitCode code = core::ExitCode::files);

/// CRC-32 of the whole content of a file without a block. Throws Error(code) if it cannot be read.
std::uint32_t file_checksum(const std::string& path, core::ExitCode code);

/// Throws Error(code) with path and reason unless the file is good.
void verify(const std::string& path, const std::string& kind, core::ExitCode code,
            SealPart part = SealPart::everything);

/// Throws Error(code) if the path itself (not a parent folder) is a symbolic link.
void refuse_link(const std::string& path, core::ExitCode code);

}  // namespace bert_hpc::io
