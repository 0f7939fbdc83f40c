// What the scheduler or the user asks by signal: SIGTERM, SIGINT and SIGUSR1 ask to stop, SIGUSR2 for a checkpoint. The
// handlers only set flags, so signals may come at any moment and repeatedly; whoever may stop polls, and the ranks
// agree on what they saw (a signal may reach some of them only).
#pragma once

#include <string>

namespace bert_hpc::app {

/// RAII: the handlers are in place while it lives; one at a time. First in main, as a scheduler may send its signals to
/// a process that has hardly begun. Who lets it go leaves: from then on the signals are ignored, as asking again must
/// not change the status, and launchers send SIGTERM to the other ranks where one has left already.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool stop() const;          ///< asked to stop; stays true
  std::string asked() const;  ///< "as asked (SIGTERM)": by the signal that came first, or "as asked"
  bool take_checkpoint();     ///< asked for a checkpoint since the last call

  /// For what nobody polls in: a request to stop ends the process as if nothing handled it, an earlier one does so now.
  void end_at_once();
};

}  // namespace bert_hpc::app
