// A lock on a run's directory that works on any file system, NFS too, and without a lock daemon: the file .lock, made
// under another name and given its own by link(), which fails where there is one. It tells who holds it since when; a
// thread touches it every few seconds. A lock is stale, and taken over, if its process is gone (same host), if it is of
// an earlier start of the same Slurm job (another host), or if nobody has touched it for a while, measured by our own
// clock. Who was suspended meanwhile, or is on a node that Slurm only believes down, learns within seconds that it has
// lost its lock.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace bert_hpc::io {

class RunLock {
 public:
  struct Timing {
    std::chrono::milliseconds touch = std::chrono::seconds(10);  ///< time between signs of life
    std::chrono::milliseconds stale = std::chrono::seconds(60);  ///< without one for so long: its holder is gone
  };

  /// Who takes the lock, for messages.
  struct User {
    const char* program = "run";        ///< what another holder calls it: "another run is at work in …"
    const char* key = "run.directory";  ///< of the input: names the directory
  };

  /// Takes DIRECTORY/.lock, making the directory. Waits up to `stale` where another job's process on another host holds
  /// it, to see whether it is alive. Throws Error(files) naming the holder where it is.
  RunLock(const std::string& directory, const Timing& timing, const User& user);
  RunLock(const std::string& directory, const Timing& timing) : RunLock(directory, timing, User{}) {}
  explicit RunLock(const std::string& directory) : RunLock(directory, Timing{}) {}
  /// Gives it back, if it is still ours.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// What was found and why it was taken over, for the log; "" if nothing was.
  const std::string& took_over() const;

  /// What the lock says, which no other one does.
  const std::string& text() const;
  /// Is the lock with this text still there? Asks the disk; any process, any thread.
  static bool is_held(const std::string& directory, const std::string& text);

  /// Has another taken it over, as far as was seen when it was last touched? Nothing may be written in the directory
  /// any more. Any thread.
  bool lost() const;
  /// Looks now. Throws Error(files) that names the new holder where it is lost; any thread.
  void require() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::io
