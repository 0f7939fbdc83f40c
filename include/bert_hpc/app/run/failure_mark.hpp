// What a rank that ends all others alone leaves behind: the word "failed" in RUN/.status, so that the directory does
// not go on saying "running". The disk may be what fails or hangs, and the end comes first: another thread writes the
// word, without forcing it to the disk, and is given a second. The lock stays: other ranks may live a moment longer.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

namespace bert_hpc::app {

class FailureMark {
 public:
  /// From now on the run with this lock (RunLock::text()) is at work in the directory.
  void set(const std::string& directory, const std::string& lock);
  /// Writes it where that lock is still there and .status says "running". Takes a second at most; any thread.
  void leave() const noexcept;

 private:
  mutable std::mutex mutex_;
  std::string directory_, lock_;
  /// Address space that is never touched, for that thread's stack and files where a rank has run out of it.
  mutable std::unique_ptr<std::byte[]> reserve_;
};

}  // namespace bert_hpc::app
