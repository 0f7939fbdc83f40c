#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/core/own_file.hpp"

#include <cstdio>
#include <filesystem>
#include <vector>

#include "descriptor.hpp"

namespace bert_hpc::io {

using detail::Descriptor;
using detail::fail_with_errno;

namespace {

std::string directory_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

void write_beside(const std::string& path, std::span<const std::byte> content, core::ExitCode code) {
  const std::string beside = name_beside(path);
  Descriptor file(core::create_own_file(beside));
  if (!file.valid()) fail_with_errno(code, "create", beside);
  if (file.write_all(content.data(), content.size()) && file.close()) return;
  const int reason = errno;
  ::unlink(beside.c_str());
  errno = reason;
  fail_with_errno(code, "write", beside);
}

/// Renames the staging file to `path`.
void take_name(const std::string& path, core::ExitCode code) {
  const std::string beside = name_beside(path);
  if (std::rename(beside.c_str(), path.c_str()) != 0) fail_with_errno(code, "rename '" + beside + "' to", path);
}

}  // namespace

std::string name_beside(const std::string& path) {
  return path + ".partial";
}

void sync_to_disk(const std::string& path, core::ExitCode code) {
  Descriptor file(path, O_RDONLY);
  if (!file.valid()) fail_with_errno(code, "open", path);
  // Some file systems cannot sync a directory and return EINVAL; they order renames by themselves.
  if (::fsync(file.get()) != 0 && errno != EINVAL) fail_with_errno(code, "force to the disk", path);
}

void make_directories(const std::string& path, core::ExitCode code) {
  namespace fs = std::filesystem;
  std::error_code problem;
  std::vector<std::string> missing;
  for (fs::path there = path; !there.empty() && !fs::exists(there, problem); there = there.parent_path()) {
    missing.push_back(there.string());
  }
  fs::create_directories(path, problem);
  if (problem) throw core::Error(code, "Cannot make '" + path + "': " + problem.message() + ".");
  for (const std::string& made : missing) {
    const std::string above = directory_of(made);
    // At some sites users can make directories in one that they cannot read.
    if (::access(above.c_str(), R_OK) == 0) sync_to_disk(above, code);
  }
}

void publish(const std::string& path, core::ExitCode code) {
  sync_to_disk(name_beside(path), code);
  take_name(path, code);
  sync_to_disk(directory_of(path), code);
}

void write_file(const std::string& path, std::span<const std::byte> content, core::ExitCode code) {
  write_beside(path, content, code);
  publish(path, code);
}

void write_text_file(const std::string& path, std::string_view content, core::ExitCode code) {
  write_file(path, std::as_bytes(std::span(content)), code);
}

void write_text_file_soon(const std::string& path, std::string_view content) {
  write_beside(path, std::as_bytes(std::span(content)), core::ExitCode::files);
  take_name(path, core::ExitCode::files);
}

}  // namespace bert_hpc::io
