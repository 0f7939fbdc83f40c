#include "app/report/kernel_profile.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/comm/objects.hpp"
#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::app {
namespace {

/// Seconds of one call, with its share of collect(): on scratch calls, the second time that they come.
double cost_of_a_call() {
  using Clock = std::chrono::steady_clock;
  constexpr int calls = 1000;
  core::CallProfile scratch;
  double seconds = 0;
  for (int round = 0; round < 2; ++round) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < calls; ++i) {
      scratch.begin(core::DeviceCall::kernel, "scratch", {});
      scratch.end();
    }
    scratch.collect();
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return seconds / calls;
}

bool is_later(const io::ProfileRow& a, const io::ProfileRow& b) {
  if (std::isnan(a.seconds_avg) || std::isnan(b.seconds_avg)) {
    return !std::isnan(a.seconds_avg) && std::isnan(b.seconds_avg);
  }
  return a.seconds_avg > b.seconds_avg;
}

}  // namespace

io::Profile profile_of_all(const std::vector<RankProfile>& ranks) {
  io::Profile all;
  all.ranks = static_cast<std::int64_t>(ranks.size());
  std::vector<std::size_t> contributors;  // of each row
  for (const RankProfile& rank : ranks) {
    all.seconds += rank.seconds / static_cast<double>(ranks.size());
    all.cost += rank.cost / static_cast<double>(ranks.size());
    for (const CallTime& call : rank.calls) {
      auto row = std::find_if(all.rows.begin(), all.rows.end(), [&](const io::ProfileRow& r) {
        return r.name == call.name && r.section == call.section && r.kind == call.kind;
      });
      if (row == all.rows.end()) {
        row = all.rows.insert(all.rows.end(), {.section = call.section, .kind = call.kind, .name = call.name});
        row->seconds_min = call.seconds;
        contributors.push_back(0);
      }
      ++contributors[static_cast<std::size_t>(row - all.rows.begin())];
      row->calls += call.calls;
      row->flops += call.flops;
      row->bytes += call.bytes;
      row->seconds_min = std::min(row->seconds_min, call.seconds);
      row->seconds_max = std::max(row->seconds_max, call.seconds);
      row->seconds_avg += call.seconds / static_cast<double>(ranks.size());
    }
  }
  for (std::size_t r = 0; r < all.rows.size(); ++r) {
    io::ProfileRow& row = all.rows[r];
    if (contributors[r] < ranks.size()) row.seconds_min = 0;
    if (std::isnan(row.seconds_avg)) row.seconds_min = row.seconds_max = row.seconds_avg;
  }
  std::stable_sort(all.rows.begin(), all.rows.end(), is_later);
  return all;
}

void KernelProfile::begin(std::int64_t step, std::int64_t total_steps) {
  if (!on_ || taken_) return;
  if (first_ < 0) {
    first_ = step + std::clamp<std::int64_t>(total_steps - step - 1, 0, warm_up_steps);
    wanted_ = std::min(most_steps, total_steps - first_);
  }
  profiling_ = step >= first_ && profiled_ < wanted_;
  begin_ = Clock::now();
}

void KernelProfile::end() {
  if (!profiling_) return;
  calls_.collect();
  seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count();
  profiling_ = false;
  ++profiled_;
}

io::Profile KernelProfile::take(comm::Communicator& world) {
  taken_ = true;
  RankProfile mine{.seconds = seconds_};
  std::int64_t timed = 0;
  for (const core::CallProfile::Entry& entry : calls_.entries()) {
    mine.calls.push_back({.section = std::string(entry.section),
                          .kind = std::string(core::device_call_names[static_cast<std::size_t>(entry.call)]),
                          .name = std::string(entry.name),
                          .calls = entry.calls,
                          .seconds = entry.seconds,
                          .flops = entry.work.flops,
                          .bytes = entry.work.bytes});
    timed += entry.calls;
  }
  mine.cost = cost_of_a_call() * static_cast<double>(timed);
  io::Profile all = profile_of_all(comm::all_gather_objects(world, mine));
  all.first_step = first_ + 1;
  all.steps = profiled_;
  all.on_gpu = core::is_gpu_build() ? 1 : 0;
  return all;
}

}  // namespace bert_hpc::app
