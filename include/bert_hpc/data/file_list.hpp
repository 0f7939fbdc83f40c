// The files that an input's lists name: patterns, and files that are named twice.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::data {

inline constexpr const char* wildcards = "*?[";

/// Files that paths name: patterns matched and sorted, the rest as they are. Adds to `problems` what matches nothing.
std::vector<std::string> match_paths(const std::vector<std::string>& paths, core::ProblemList& problems);

/// A file and the key that names it, for messages ("data.train").
struct ListedFile {
  std::string key, path;
};

/// Two entries that are one file, whatever it is called there (device and inode).
struct RepeatedFile {
  ListedFile first, second;
  bool in_one_list() const { return first.key == second.key; }
};

/// Each file that is there again, with its first entry, in the order of the list. Files that are not there are left
/// out.
std::vector<RepeatedFile> repeated_files(const std::vector<ListedFile>& files);

/// "data.train names 'a.h5' twice", "'a.h5' is in data.train and in data.test (as './a.h5')".
std::string describe(const RepeatedFile& file);

}  // namespace bert_hpc::data
