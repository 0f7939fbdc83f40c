// Results take their place by renames within one file system, after everything has been written and synchronised.
#include "staging.hpp"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::prep {

namespace fs = std::filesystem;
using core::Error;
using core::ExitCode;

std::vector<std::string> shard_names(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) return names;
  try {
    const std::regex shard("(train|validation|test)-[0-9]{5,}\\.h5");
    for (const auto& entry : fs::directory_iterator(directory)) {
      std::string name = entry.path().filename().string();
      if (std::regex_match(name, shard)) names.push_back(std::move(name));
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::files, directory + ": [output] directory cannot be read: " + error.code().message() + ".");
  }
  std::sort(names.begin(), names.end());
  return names;
}

Staging::Staging(std::string directory) : directory_(std::move(directory)), path_(directory_ + "/.bert_hpc_prep") {}

void Staging::make() const {
  try {
    fs::create_directories(directory_);
    fs::remove_all(path_);  // of a run that was killed
    fs::create_directory(path_);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::files,
                directory_ + ": [output] directory cannot be written: " + error.code().message() + ".");
  }
}

void Staging::publish() const {
  try {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("tokens-")) names.push_back(name);
    }
    for (const std::string& name : shard_names(directory_)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) fs::remove(directory_ + "/" + name);
    }
    for (const std::string& name : names) {
      io::sync_to_disk(file(name));
      fs::rename(file(name), directory_ + "/" + name);
    }
    fs::remove_all(path_);
    io::sync_to_disk(directory_);
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::files,
                directory_ + ": results cannot be put into [output] directory: " + error.code().message() + ".");
  }
}

void Staging::discard() const noexcept {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  fs::remove(directory_, ignored);  // succeeds only if nothing else is in it
}

}  // namespace bert_hpc::prep
