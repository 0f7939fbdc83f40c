// Files that are never seen half written: bytes go to a file beside (same directory, so that renaming is one step on
// the same file system), are forced to the disk, and only then take the final name. After a crash at any instant the
// final name holds the old content or the new, whole. The name beside is fixed, so a killed writer leaves at most one
// stray file, which the next writer replaces; two writers of one path at a time are not provided for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::io {

/// How safe written bytes are: `forced` survives a crash of the machine; `buffered` only the end of the process, but
/// does not wait for the disk.
enum class Durability { forced, buffered };

/// Where the content of `path` is written before it takes that name: `path` + ".partial".
std::string name_beside(const std::string& path);

/// Forces the file written at name_beside(path) to the disk and renames it to `path`. Throws Error(code) with the
/// system's reason.
void publish(const std::string& path, core::ExitCode code = core::ExitCode::files);

/// Writes a whole file so. Throws Error(code); `path` is then untouched and the file beside is gone.
void write_file(const std::string& path, std::span<const std::byte> content,
                core::ExitCode code = core::ExitCode::files);
void write_text_file(const std::string& path, std::string_view content, core::ExitCode code = core::ExitCode::files);

/// The same, but nothing is forced to the disk: it does not wait for a slow one, and a machine that stops may lose it.
void write_text_file_soon(const std::string& path, std::string_view content);

/// Makes a directory and those above it that are missing; their names are on the disk when this returns.
void make_directories(const std::string& path, core::ExitCode code = core::ExitCode::files);

/// Forces a file's, or a directory's, content to the disk.
void sync_to_disk(const std::string& path, core::ExitCode code = core::ExitCode::files);

}  // namespace bert_hpc::io
