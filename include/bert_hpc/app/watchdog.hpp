// Names ranks that were stopped or whose node hangs, and ends a run that waits for one in vain. A thread of each rank
// sends a sign of life every few seconds (comm/heartbeat) and hears those of others; no part of it is in the step loop.
// Rank 0 watches all ranks, the others rank 0.
//
// What it cannot see: a main thread that hangs while its process lives (a dead file system: the section that it is in
// is known only to that rank), ranks on nodes that cannot reach rank 0 by UDP over IPv4 (told once), and which of
// several ranks stopped first.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/activity.hpp"
#include "bert_hpc/core/log.hpp"

namespace bert_hpc::app {

struct WatchdogSettings {
  double seconds = 60;         ///< of silence until a rank is named; 0: no watchdog
  double limit_seconds = 600;  ///< of silence until the run ends; 0: it never does for that
};

/// Since when which ranks are silent. Times are seconds of one clock. Pure.
class SilenceTable {
 public:
  enum class Change { none, silent, back, over };

  SilenceTable(const WatchdogSettings& settings, int ranks, double now);

  /// A sign of life of this rank came. Change::back where it had been named.
  Change heard(int rank, double now);
  /// It leaves: nothing more is expected.
  void ended(int rank);
  /// Is it silent for too long? Each answer but `none` comes once.
  Change judge(int rank, double now);
  /// The one who listens was itself away until now: what it missed is nobody's fault.
  void forgive(double now);
  /// Has it ever been heard?
  bool known(int rank) const { return of(rank).known; }
  double silence(int rank, double now) const { return now - of(rank).last; }

 private:
  struct Rank {
    double last = 0;
    bool known = false, ended = false, told = false, over = false;
  };
  const Rank& of(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  Rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  WatchdogSettings settings_;
  std::vector<Rank> ranks_;
};

class Watchdog {
 public:
  /// Collective. All must outlive it. Does nothing in a world of one rank, or where it is switched off.
  Watchdog(const WatchdogSettings& settings, comm::Communicator& world, const core::Activity& activity, core::Log& log);
  /// Says farewell to the others.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::app
