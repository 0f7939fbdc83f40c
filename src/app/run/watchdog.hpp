// Names ranks that were stopped or whose node hangs, and ends a run that waits for one in vain. A thread of each rank
// sends a heartbeat every few seconds (comm/heartbeat) and receives those of others; no part of it is in the step loop.
// Rank 0 watches all ranks, the others watch rank 0.
//
// A process may be alive while its main thread hangs (a dead file system, a lost message). Then all ranks stall sooner
// or later, and rank 0 reports the section of each. A stall never ends a run, as file systems come back.
//
// Datagrams may be lost while all ranks are alive. Every step holds a sum over all ranks, so a rank that makes progress
// knows that all others do.
//
// The watchdog cannot see ranks on nodes that cannot reach rank 0 by UDP over IPv4 (reported once), nor which of
// several ranks stopped first.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/run/failure_mark.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/activity.hpp"
#include "bert_hpc/core/log.hpp"

namespace bert_hpc::app {

struct WatchdogSettings {
  double seconds = 60;         ///< of silence until a rank is named; 0: no watchdog
  double limit_seconds = 600;  ///< of silence until the run ends; 0: it never does for that
};

/// How long each rank has been silent. Times are seconds of one clock. Pure.
class LivenessTable {
 public:
  enum class Change { none, silent, unreachable, back, over };

  LivenessTable(const WatchdogSettings& settings, int ranks, double now);

  /// A heartbeat of this rank arrived. Change::back if the rank had been reported as silent.
  Change heard(int rank, double now);
  /// The rank leaves: no more heartbeats are expected.
  void ended(int rank);
  /// Returns what has changed for the rank since the last call; reports each change once. `step`: the last step that
  /// the calling rank has finished. If it advances, the other rank works too and only its heartbeats are lost
  /// (`unreachable`): it counts as never heard until one arrives.
  Change judge(int rank, double now, std::int64_t step);
  /// The calling rank was suspended until now: heartbeats that it missed do not count.
  void forgive(double now);
  /// Whether a heartbeat of the rank has arrived.
  bool known(int rank) const { return of(rank).known; }
  double silence(int rank, double now) const { return now - std::max(of(rank).last, of(rank).took_part); }
  double unheard(int rank, double now) const { return now - of(rank).last; }
  /// Whether a rank is reported as silent.
  bool anyone_is_silent() const;

 private:
  struct Rank {
    double last = 0;        // heartbeat
    double took_part = 0;   // in a step, when that was seen
    std::int64_t step = 0;  // then
    bool known = false, ended = false, reported = false, over = false;
  };
  const Rank& of(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  Rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  WatchdogSettings settings_;
  std::vector<Rank> ranks_;
};

/// Whether the whole run stalls: no rank enters or leaves a section. Times as above. Pure.
class GlobalStall {
 public:
  enum class Change { none, still, moving };

  GlobalStall(double seconds, int ranks, double now)
      : seconds_(seconds), moved_(now), moves_(static_cast<std::size_t>(ranks)) {}

  /// The counter of a rank (core::Activity::moves).
  void seen(int rank, std::int64_t moves, double now);
  /// Each answer but `none` comes once.
  Change judge(double now);
  /// The time until now does not count.
  void forgive(double now) {
    moved_ = now;
    reported_since_ = -1;
  }
  double duration(double now) const { return now - moved_; }

 private:
  double seconds_, moved_;
  double reported_since_ = -1;  // begin of the stall that was reported
  std::vector<std::int64_t> moves_;
};

/// The section of every rank, in ascending order of group size: `rank 3 on node7 is in "data", ranks 0-2 are in
/// "gradient sum"`.
std::string whereabouts(const std::vector<std::string>& sections, const std::vector<std::string>& hosts);

class Watchdog {
 public:
  /// Collective. All must outlive it. Does nothing in a world of one rank, or where it is switched off.
  Watchdog(const WatchdogSettings& settings, comm::Communicator& world, const core::Activity& activity, core::Log& log,
           const FailureMark& mark);
  /// Sends the other ranks a last heartbeat.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::app
