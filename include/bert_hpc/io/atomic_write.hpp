// Atomic file replacement. Bytes go to a staging file in the same directory (so that the rename stays on one file
// system), are forced to the disk, and only then take the final name. After a crash at any instant the final name holds
// either the complete old content or the complete new content. The staging name is fixed, so a killed writer leaves at
// most one stray file, which the next writer replaces. Two concurrent writers of one path are not supported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::io {

/// Durability of written bytes: `forced` survives a crash of the machine; `buffered` survives only the end of the
/// process, but does not wait for the disk.
enum class Durability { forced, buffered };

/// The staging path for the content of `path`: `path` + ".partial".
std::string name_beside(const std::string& path);

/// Forces the staging file name_beside(path) to the disk and renames it to `path`. Throws Error(code) with the system's
/// reason.
void publish(const std::string& path, core::ExitCode code = core::ExitCode::files);

/// Replaces a whole file atomically. On failure throws Error(code); `path` is unchanged and the staging file is
/// removed.
void write_file(const std::string& path, std::span<const std::byte> content,
                core::ExitCode code = core::ExitCode::files);
void write_text_file(const std::string& path, std::string_view content, core::ExitCode code = core::ExitCode::files);

/// The same without forcing anything to the disk: it does not wait for a slow disk, and a machine crash may lose the
/// file.
void write_text_file_soon(const std::string& path, std::string_view content);

/// Makes a directory and its missing parents; their names are on the disk when this returns.
void make_directories(const std::string& path, core::ExitCode code = core::ExitCode::files);

/// Forces the content of a file or directory to the disk.
void sync_to_disk(const std::string& path, core::ExitCode code = core::ExitCode::files);

}  // namespace bert_hpc::io
