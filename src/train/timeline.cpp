#include "bert_hpc/train/timeline.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::train {

namespace {

/// One direction of the link between two stages.
struct Way {
  std::deque<double> arrivals;  // of messages sent and not yet received
  double free = 0;              // when the next message may start
};

class Player {
 public:
  Player(const std::vector<Schedule>& schedules, const PipelineDurations& durations)
      : schedules_(schedules),
        durations_(durations),
        at_(schedules.size()),
        clock_(schedules.size()),
        sent_(schedules.size()) {
    timeline_.stages.resize(schedules.size());
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < schedules_.size(); ++stage) {
        while (at_[stage] < schedules_[stage].size() && advance(stage)) moved = true;
      }
    }
    for (std::size_t stage = 0; stage < schedules_.size(); ++stage) {
      core::require(at_[stage] == schedules_[stage].size(), "These pipeline schedules never end.");
      timeline_.seconds = std::max(timeline_.seconds, clock_[stage]);
    }
    return std::move(timeline_);
  }

 private:
  /// Returns true if the stage's instruction is complete, or its message sent.
  bool advance(std::size_t stage) {
    const Instruction& i = schedules_[stage][at_[stage]];
    const int own = static_cast<int>(stage);
    const Transfer transfer = transfer_of(i, static_cast<int>(schedules_.size()), own);
    const bool sends = transfer.send && !sent_[stage];
    if (sends) send(own, *transfer.send);
    double end = clock_[stage];
    if (computes(i)) end += durations_.compute(own, i);
    if (transfer.receive) {
      Way& way = ways_[{transfer.receive->peer, own}];
      if (way.arrivals.empty()) {
        sent_[stage] = transfer.send.has_value();
        return sends;
      }
      end = std::max(end, way.arrivals.front());
      way.arrivals.pop_front();
    }
    timeline_.stages[stage].push_back({i, clock_[stage], end});
    clock_[stage] = end;
    sent_[stage] = false;
    ++at_[stage];
    return true;
  }

  void send(int stage, const Message& message) {
    Way& way = ways_[{stage, message.peer}];
    const double begin = std::max(clock_[static_cast<std::size_t>(stage)], way.free);
    way.free = begin + (durations_.transfer ? durations_.transfer(stage, message.peer, message) : 0.0);
    way.arrivals.push_back(way.free + (durations_.latency ? durations_.latency(stage, message.peer) : 0.0));
  }

  const std::vector<Schedule>& schedules_;
  const PipelineDurations& durations_;
  std::vector<std::size_t> at_;              // (stages): current instruction of each
  std::vector<double> clock_;                // (stages)
  std::vector<bool> sent_;                   // (stages): an exchange has sent and still receives
  std::map<std::pair<int, int>, Way> ways_;  // by sender and receiver
  Timeline timeline_;
};

}  // namespace

Timeline play(const std::vector<Schedule>& schedules, const PipelineDurations& durations) {
  return Player(schedules, durations).run();
}

double bubble(const Timeline& timeline) {
  if (timeline.seconds <= 0) return 0;
  double busy = 0;
  for (const auto& stage : timeline.stages) {
    for (const TimedInstruction& timed : stage) {
      if (computes(timed.instruction)) busy += timed.end - timed.begin;
    }
  }
  return 1 - busy / (timeline.seconds * static_cast<double>(timeline.stages.size()));
}

double shared_core_scale(const Timeline& timeline, double core_share) {
  if (timeline.seconds <= 0) return 1;
  std::vector<std::pair<double, int>> changes;  // time, and +1 or -1 for a stage that begins or ends computing
  for (const auto& stage : timeline.stages) {
    for (const TimedInstruction& timed : stage) {
      if (!computes(timed.instruction)) continue;
      changes.emplace_back(timed.begin, 1);
      changes.emplace_back(timed.end, -1);
    }
  }
  changes.emplace_back(timeline.seconds, 0);
  std::sort(changes.begin(), changes.end());
  double scaled = 0, from = 0;
  int active = 0;
  for (const auto& [at, change] : changes) {
    scaled += (at - from) * std::max(core_share, active / static_cast<double>(timeline.stages.size()));
    from = at;
    active += change;
  }
  return scaled / timeline.seconds;
}

}  // namespace bert_hpc::train
