// A rank that fails alone and ends all others writes "failed" to RUN/.status, so that the directory does not keep the
// status "running". The disk itself may fail or hang, and must not delay the end: another thread writes the word,
// without forcing it to the disk, and has one second. The lock stays, because other ranks may live a moment longer.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

namespace bert_hpc::app {

class FailureMark {
 public:
  /// From now on the run with this lock (RunLock::text()) is active in the directory.
  void set(const std::string& directory, const std::string& lock);
  /// Writes the mark if that lock still exists and .status says "running". Waits for the disk at most so long; any
  /// thread.
  void leave(std::chrono::milliseconds longest = std::chrono::seconds(1)) const noexcept;

 private:
  mutable std::mutex mutex_;
  std::string directory_, lock_;
  /// Reserved address space, never touched: freed for that thread's stack and files if a rank has run out of memory.
  mutable std::unique_ptr<std::byte[]> reserve_;
};

}  // namespace bert_hpc::app
