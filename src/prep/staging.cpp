// Results are published by renames within one file system, after everything has been written and synchronised.
#include "staging.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "ownership.hpp"

namespace bert_hpc::prep {

namespace fs = std::filesystem;
using core::Error;
using core::ExitCode;

namespace {

const io::RunLock::User lock_user{"bert_hpc_prep", "[output] directory"};

/// Bytes of all files below `folder`.
std::int64_t bytes_of(const std::string& folder) {
  std::int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += static_cast<std::int64_t>(entry.file_size());
  }
  return bytes;
}

}  // namespace

Staging::Staging(std::string directory) : directory_(std::move(directory)), path_(directory_ + "/.bert_hpc_prep") {}

std::vector<std::string> Staging::make() {
  std::vector<std::string> lines;
  lock_ = std::make_unique<io::RunLock>(directory_, io::RunLock::Timing{}, lock_user);
  if (!lock_->took_over().empty()) lines.push_back(lock_->took_over());
  try {
    if (fs::exists(path_)) {
      const std::int64_t bytes = bytes_of(path_);
      fs::remove_all(path_);
      lines.push_back("removed " + path_ + ", the scratch files (" + core::format_bytes(bytes) +
                      ") of a run that was killed");
    }
    fs::create_directory(path_);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::files,
                directory_ + ": [output] directory cannot be written: " + error.code().message() + ".");
  }
  return lines;
}

void Staging::publish() {
  lock_->require();
  refuse_foreign_files(directory_);  // that came while this run was at work
  try {
    std::vector<std::string> names, now, before;
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("tokens-") || name.starts_with("texts-") || name.starts_with("words-"))
        continue;  // scratch files
      names.push_back(name);
      now.push_back(manifest_line(file(name), name));
    }
    const std::vector<std::string> earlier = own_files(directory_);
    for (const std::string& name : earlier) before.push_back(manifest_line(directory_ + "/" + name, name));
    before.insert(before.end(), now.begin(), now.end());
    write_manifest(directory_, before);
    for (const std::string& name : earlier) {
      if (std::find(names.begin(), names.end(), name) == names.end()) fs::remove(directory_ + "/" + name);
    }
    for (const std::string& name : names) {
      io::sync_to_disk(file(name));
      fs::rename(file(name), directory_ + "/" + name);
    }
    write_manifest(directory_, now);
    fs::remove_all(path_);
    io::sync_to_disk(directory_);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::files,
                directory_ + ": results cannot be put into [output] directory: " + error.code().message() + ".");
  }
  lock_.reset();
}

void Staging::discard() noexcept {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  lock_.reset();
  fs::remove(directory_, ignored);  // succeeds only if nothing else is in it
}

}  // namespace bert_hpc::prep
