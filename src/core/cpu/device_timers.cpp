#include "bert_hpc/core/device_timers.hpp"

#include <chrono>

namespace bert_hpc::core {

TimedMark::~TimedMark() = default;

void TimedMark::prepare() {}

bool TimedMark::is_reached() const {
  return true;
}

void TimedMark::set() {
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double TimedMark::seconds_since(const TimedMark& earlier) const {
  return seconds_ - earlier.seconds_;
}

}  // namespace bert_hpc::core
