#include "bert_hpc/data/file_list.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <utility>

namespace bert_hpc::data {
namespace {

/// The outermost folder of a pattern's part without wildcards that is not there; "" if there are all.
std::string missing_folder(const std::string& pattern) {
  const std::size_t wildcard = pattern.find_first_of(wildcards);
  std::error_code ignored;
  for (std::size_t end = pattern.find('/', 1); end < wildcard; end = pattern.find('/', end + 1)) {
    std::string folder = pattern.substr(0, end);
    if (!std::filesystem::is_directory(folder, ignored)) return folder;
  }
  return "";
}

}  // namespace

std::vector<std::string> match_paths(const std::vector<std::string>& paths, core::ProblemList& problems) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (path.find_first_of(wildcards) == std::string::npos || std::filesystem::exists(path, ignored)) {
      files.push_back(path);
      continue;
    }
    glob_t found{};
    const int status = ::glob(path.c_str(), GLOB_ERR, nullptr, &found);
    if (status == 0) {
      files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    } else {
      const std::string folder = missing_folder(path);
      const std::string why = !folder.empty()          ? ": there is no folder '" + folder + "'."
                              : status == GLOB_ABORTED ? ": a directory cannot be read."
                                                       : ".";
      problems.add("No file matches '" + path + "'" + why);
    }
    ::globfree(&found);
  }
  return files;
}

std::vector<RepeatedFile> repeated_files(const std::vector<ListedFile>& files) {
  std::map<std::pair<dev_t, ino_t>, std::size_t> seen;
  std::vector<RepeatedFile> repeated;
  for (std::size_t f = 0; f < files.size(); ++f) {
    struct stat status {};
    if (::stat(files[f].path.c_str(), &status) != 0) continue;
    const auto [known, is_new] = seen.try_emplace({status.st_dev, status.st_ino}, f);
    if (!is_new) repeated.push_back({files[known->second], files[f]});
  }
  return repeated;
}

std::string describe(const RepeatedFile& file) {
  const auto& [first, second] = file;
  const bool renamed = first.path != second.path;
  if (!file.in_one_list()) {
    return "'" + first.path + "' is in " + first.key + " and in " + second.key +
           (renamed ? " (as '" + second.path + "')" : "");
  }
  return first.key + " names '" + first.path + "' twice" + (renamed ? ", also as '" + second.path + "'" : "");
}

}  // namespace bert_hpc::data
