// The folder in which everything is made before it takes its place in the output directory. Internal to the module.
#pragma once

#include <string>
#include <vector>

namespace bert_hpc::prep {

/// Names of the shards that `directory` holds, sorted; none if there is no such directory. Throws Error(files).
std::vector<std::string> shard_names(const std::string& directory);

class Staging {
 public:
  /// Only names; nothing is made.
  explicit Staging(std::string directory);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// Makes the output directory and in it an empty folder. One rank calls it. Throws Error(files).
  void make() const;
  /// Moves every file to the output directory, replacing those of that name, and removes shards of earlier runs that
  /// are not replaced. One rank calls it. Throws Error(files).
  void publish() const;
  /// Removes the folder and all in it; never throws.
  void discard() const noexcept;

 private:
  std::string directory_, path_;
};

}  // namespace bert_hpc::prep
