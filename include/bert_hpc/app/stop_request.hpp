// What the scheduler or the user asks by signal: SIGTERM, SIGINT and SIGUSR1 ask to stop, SIGUSR2 for a checkpoint. The
// handlers only set flags, so signals may come at any moment and repeatedly; the step loop polls, and the ranks agree
// on what they saw (a signal may reach some of them only).
#pragma once

#include <csignal>

namespace bert_hpc::app {

/// RAII: the handlers are in place while it lives; one at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool stop() const;        ///< asked to stop; stays true
  int stop_signal() const;  ///< the signal that asked first; 0: none
  bool take_checkpoint();   ///< asked for a checkpoint since the last call

  /// All is done, and this process leaves: until it has, asking it to stop must not change its status. Where other
  /// ranks of a job have left already, launchers send SIGTERM. Without this the former handlers come back in the end,
  /// as MPI_Abort ends ranks by SIGTERM.
  void ignore_from_now_on();

 private:
  static constexpr int signals_[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
  struct sigaction before_[4];
  bool restores_ = true;
};

}  // namespace bert_hpc::app
