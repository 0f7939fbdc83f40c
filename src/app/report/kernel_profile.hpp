// The kernel mix of a few steps: what each kind of call took on the device, by timer section, over all ranks. The first
// steps of a start are left out, as caches and threads warm up in them. Outside the profiled steps a call costs one
// pointer read.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/call_profile.hpp"
#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

/// What one rank measured of a kind of call; NaN: unknown.
struct CallTime {
  std::string section, kind, name;
  std::int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.section, self.kind, self.name, self.calls, self.seconds, self.flops, self.bytes);
  }
};

struct RankProfile {
  double seconds = 0;  ///< of the profiled steps, by the host's clock
  double cost = 0;     ///< of these, what measuring took
  std::vector<CallTime> calls{};

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.seconds, self.cost, self.calls);
  }
};

/// Rows over ranks, those that took longest first and those of unknown time last; a rank that lacks a call has spent 0
/// seconds in it. The rest of the profile is for the caller to fill in. Pure.
io::Profile profile_of_all(const std::vector<RankProfile>& ranks);

class KernelProfile {
 public:
  static constexpr std::int64_t warm_up_steps = 2, most_steps = 20;

  explicit KernelProfile(bool on) : on_(on) {}

  /// Around step number `step` (from 0) of `total_steps`, with its data.
  void begin(std::int64_t step, std::int64_t total_steps);
  void end();
  /// Who sees the calls of the step that began; null: none.
  core::CallObserver* observer() { return profiling_ ? &calls_ : nullptr; }

  bool pending() const { return on_ && !taken_ && profiled_ > 0; }  ///< something is there to be taken
  bool complete() const { return pending() && profiled_ == wanted_; }

  /// Collective over the world. What was measured so far; nothing is profiled afterwards.
  io::Profile take(comm::Communicator& world);

 private:
  using Clock = std::chrono::steady_clock;

  bool on_ = false, taken_ = false, profiling_ = false;
  std::int64_t first_ = -1, wanted_ = 0, profiled_ = 0;
  Clock::time_point begin_;
  double seconds_ = 0;
  core::CallProfile calls_;
};

}  // namespace bert_hpc::app
