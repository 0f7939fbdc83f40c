// What the scheduler or the user requests by signal: SIGTERM, SIGINT and SIGUSR1 a stop, SIGUSR2 a checkpoint. The
// handlers only set flags and write a byte to a pipe, so signals may come at any moment and repeatedly. The step loop
// polls the flags, and the ranks agree on what they saw (a signal may reach only some of them). A SignalListener reads
// the pipe and reacts at once.
//
// When mpirun of Open MPI ends (Ctrl-C, SIGTERM, timeout) it sends its ranks SIGCONT at once, SIGTERM one interval
// later and SIGKILL after another one. SIGCONT is thus the first sign that little time is left. It also comes when a
// suspended job is continued, so it requests no stop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace bert_hpc::app {

/// Seconds between SIGCONT, SIGTERM and SIGKILL where Open MPI's mpirun started this process (1 by default); 0 where it
/// did not. `variable` returns an environment variable, "" where it is not set. Pure.
double mpirun_kill_interval(const std::function<std::string(const char*)>& variable);

/// What is reported as soon as a signal comes. `kill_interval`: as above. `step`: the last complete one; `steps`: the
/// program is in its step loop. Pure.
std::string signal_notice(int signal, double kill_interval, std::int64_t step, bool steps);

/// RAII: the handlers are in place while it lives; one at a time. First in main, as a scheduler may send its signals to
/// a process that has hardly begun. After its end the program exits: from then on the signals are ignored, as a
/// repeated request must not change the status, and launchers send SIGTERM to the other ranks where one has exited
/// already.
class StopRequest {
 public:
  StopRequest();
  explicit StopRequest(double kill_interval);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool stop() const;          ///< a stop is requested; stays true
  std::string asked() const;  ///< "on SIGTERM": the signal that came first; "as requested" where none came here
  bool take_checkpoint();     ///< a checkpoint was requested since the last call

  double kill_interval() const { return kill_interval_; }  ///< mpirun_kill_interval() of this process
  /// Does this signal mean that the launcher may kill all ranks within seconds?
  bool is_urgent(int signal) const;

  /// For phases in which nothing polls: a stop request ends the process as if there were no handler; so does an earlier
  /// one.
  void end_at_once();

  int pipe() const { return read_end_; }  ///< each signal is one byte; 0 ends a listener
  void wake_listener() const;

 private:
  double kill_interval_;
  int read_end_ = -1, write_end_ = -1;
};

}  // namespace bert_hpc::app
