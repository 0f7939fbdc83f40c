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

/// Seconds between SIGCONT, SIGTERM and SIGKILL if Open MPI's mpirun started this process (1 by default); otherwise 0.
/// `variable` returns an environment variable, "" if it is not set. Pure.
double mpirun_kill_interval(const std::function<std::string(const char*)>& variable);

/// What jobs/local.sh passed on as SIGUSR1, for example "SIGINT (Ctrl-C)": mpirun would answer other signals by killing
/// its ranks. The script writes it into the file that BERT_HPC_STOP_REASON names. "" if there is none.
std::string relayed_request(const std::function<std::string(const char*)>& variable);

/// The message to report as soon as a signal arrives. `kill_interval`: as above. `step`: the last complete step;
/// `steps`: true while the program is in its step loop. `relayed`: as above. Pure.
std::string signal_notice(int signal, double kill_interval, std::int64_t step, bool steps,
                          const std::string& relayed = {});

/// "on SIGTERM", or "before the wall-time limit" where `signal` is 0. `by_launcher`: as StopRequest::is_by_launcher().
/// Pure.
std::string stop_reason(int signal, bool by_launcher = false, const std::string& relayed = {});

/// RAII: the handlers are installed during its lifetime; at most one instance. Create it first in main, because a
/// scheduler may send its signals to a process that has hardly begun. The program exits soon after its destruction, and
/// ignores the signals from then on: a repeated request must not change the exit status, and launchers send SIGTERM to
/// the other ranks once one has exited.
class StopRequest {
 public:
  StopRequest();
  explicit StopRequest(double kill_interval);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool stop() const;            ///< a stop is requested; stays true
  int signal() const;           ///< the signal that requested it first; 0: none came to this rank
  bool is_by_launcher() const;  ///< that signal was SIGTERM soon after SIGCONT, as mpirun sends them when it ends
  bool take_checkpoint();       ///< a checkpoint was requested since the last call

  double kill_interval() const { return kill_interval_; }  ///< mpirun_kill_interval() of this process
  /// True if the launcher may kill all ranks within seconds of this signal.
  bool is_urgent(int signal) const;

  /// For phases without polling: a stop request, also an earlier one, ends the process as if there were no handler.
  void end_at_once();

  int pipe() const { return read_end_; }  ///< each signal is one byte; 0 ends a listener
  void wake_listener() const;

 private:
  double kill_interval_;
  int read_end_ = -1, write_end_ = -1;
};

}  // namespace bert_hpc::app
