// The folder in which everything is made before it is moved into the output directory, and the lock that keeps a
// second bert_hpc_prep out of that directory. Internal to the module.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/io/run_lock.hpp"

namespace bert_hpc::prep {

class Staging {
 public:
  /// Only names; nothing is made.
  explicit Staging(std::string directory);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// Makes the output directory, locks it, and makes an empty folder in it. Returns what the user should know: lines
  /// on the lock and the scratch files of a run that was killed. One rank calls it. Throws Error(files), also where
  /// another process holds the lock.
  std::vector<std::string> make();
  /// Moves every file to the output directory, replacing those of that name, and removes files of earlier runs that
  /// are not replaced. A kill leaves a manifest that lists old and new files. One rank calls it. Throws Error(files),
  /// also where the lock was lost.
  void publish();
  /// Removes the folder and all in it, and releases the lock; never throws.
  void discard() noexcept;

 private:
  std::string directory_, path_;
  std::unique_ptr<io::RunLock> lock_;
};

}  // namespace bert_hpc::prep
