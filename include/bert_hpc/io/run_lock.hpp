// A lock on a run's directory that works on any file system, including NFS, without a lock daemon: the file .lock, made
// under another name and hard-linked to .lock by link(), which fails if .lock exists. It records its holder and the
// time; a thread of the holder touches it every few seconds. A lock is stale, and is taken over, if its process has
// ended (same host), if it belongs to an earlier start of the same Slurm job (another host), or if it is not touched
// for a while, measured by the waiting process's clock. A holder that was suspended meanwhile, or whose node Slurm
// wrongly considers down, detects within seconds that it has lost its lock.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "bert_hpc/core/clock.hpp"

namespace bert_hpc::io {

class RunLock {
 public:
  struct Timing {
    std::chrono::milliseconds touch = std::chrono::seconds(10);  ///< time between touches
    std::chrono::milliseconds stale = std::chrono::seconds(60);  ///< without a touch for this long, the holder counts
                                                                 ///< as gone
    core::Clock* clock = &core::steady_clock();                  ///< times the watch over another holder's lock
  };

  /// The program that takes the lock, for messages.
  struct User {
    const char* program = "run";        ///< as another holder's messages name it: "another run is at work in …"
    const char* key = "run.directory";  ///< input key that names the directory
  };

  /// Takes DIRECTORY/.lock and makes the directory. If a process of another job on another host holds it, waits up to
  /// `stale` to see whether that process is alive. Throws Error(files), naming the holder, if it is.
  RunLock(const std::string& directory, const Timing& timing, const User& user);
  RunLock(const std::string& directory, const Timing& timing) : RunLock(directory, timing, User{}) {}
  explicit RunLock(const std::string& directory) : RunLock(directory, Timing{}) {}
  /// Releases the lock if this process still holds it.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Describes the stale lock that was taken over and why, for the log; "" if there was none.
  const std::string& took_over() const;

  /// The text in the lock, unique to this holder.
  const std::string& text() const;
  /// True if the lock with this text still exists. Reads the disk; any process, any thread.
  static bool is_held(const std::string& directory, const std::string& text);

  /// True if the last touch found that another process has taken the lock over. This process must then write nothing
  /// more in the directory. Any thread.
  bool lost() const;
  /// Checks now. Throws Error(files), naming the new holder, if the lock is lost; any thread.
  void require() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::io
