// Names ranks that were stopped or whose node hangs, and ends a run that waits for one in vain. A thread of each rank
// sends a sign of life every few seconds (comm/heartbeat) and hears those of others; no part of it is in the step loop.
// Rank 0 watches all ranks, the others rank 0.
//
// A process may live while its main thread hangs (a dead file system, a lost message). Then no rank goes on sooner or
// later: rank 0 tells what section each of them is in. That is never a reason to end a run, as file systems come back.
//
// Datagrams may stop to arrive while all ranks live. Every step holds a sum over all ranks, so whoever goes on step by
// step knows that all others do.
//
// What it cannot see: ranks on nodes that cannot reach rank 0 by UDP over IPv4 (told once), and which of several ranks
// stopped first.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/app/run/failure_mark.hpp"
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
  enum class Change { none, silent, unreachable, back, over };

  SilenceTable(const WatchdogSettings& settings, int ranks, double now);

  /// A sign of life of this rank came. Change::back where it had been named.
  Change heard(int rank, double now);
  /// It leaves: nothing more is expected.
  void ended(int rank);
  /// Is it silent for too long? Each answer but `none` comes once. `step` is the last one that this rank has finished:
  /// where that goes on, so does the other one, whose signs just do not arrive (`unreachable`). Until one does it
  /// counts as never heard.
  Change judge(int rank, double now, std::int64_t step);
  /// The one who listens was itself away until now: what it missed is nobody's fault.
  void forgive(double now);
  /// Has it ever been heard?
  bool known(int rank) const { return of(rank).known; }
  double silence(int rank, double now) const { return now - std::max(of(rank).last, of(rank).took_part); }
  double unheard(int rank, double now) const { return now - of(rank).last; }
  /// Is a rank named as silent?
  bool anyone_is_silent() const;

 private:
  struct Rank {
    double last = 0;        // sign of life
    double took_part = 0;   // in a step, when that was seen
    std::int64_t step = 0;  // then
    bool known = false, ended = false, told = false, over = false;
  };
  const Rank& of(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  Rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  WatchdogSettings settings_;
  std::vector<Rank> ranks_;
};

/// Whether the run as a whole stands still: no rank enters or leaves a section. Times as above. Pure.
class Standstill {
 public:
  enum class Change { none, still, moving };

  Standstill(double seconds, int ranks, double now)
      : seconds_(seconds), moved_(now), moves_(static_cast<std::size_t>(ranks)) {}

  /// What a rank says of itself (core::Activity::moves).
  void seen(int rank, std::int64_t moves, double now);
  /// Each answer but `none` comes once.
  Change judge(double now);
  /// What was missed until now tells nothing.
  void forgive(double now) {
    moved_ = now;
    told_since_ = -1;
  }
  double duration(double now) const { return now - moved_; }

 private:
  double seconds_, moved_;
  double told_since_ = -1;  // the standstill that was told began then
  std::vector<std::int64_t> moves_;
};

/// Who is where, the fewest first: `rank 3 on node7 is in "data", ranks 0-2 are in "gradient sum"`.
std::string whereabouts(const std::vector<std::string>& sections, const std::vector<std::string>& hosts);

class Watchdog {
 public:
  /// Collective. All must outlive it. Does nothing in a world of one rank, or where it is switched off.
  Watchdog(const WatchdogSettings& settings, comm::Communicator& world, const core::Activity& activity, core::Log& log,
           const FailureMark& mark);
  /// Says farewell to the others.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::app
