#include "bert_hpc/core/device_timers.hpp"

#include <utility>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {
namespace {

class MarkClock final : public DeviceClock {
 public:
  explicit MarkClock(std::size_t marks) : marks_(marks) {
    for (TimedMark& mark : marks_) mark.prepare();
  }
  void set(std::size_t mark) override { marks_[mark].set(); }
  bool is_reached(std::size_t mark) override { return marks_[mark].is_reached(); }
  double seconds(std::size_t begin, std::size_t end) override { return marks_[end].seconds_since(marks_[begin]); }

 private:
  std::vector<TimedMark> marks_;
};

}  // namespace

std::unique_ptr<DeviceClock> make_device_clock(std::size_t marks) {
  return std::make_unique<MarkClock>(marks);
}

DeviceLaps::DeviceLaps(std::unique_ptr<DeviceClock> clock, std::size_t laps, Add add)
    : clock_(std::move(clock)), add_(std::move(add)), laps_(laps) {
  require(laps > 0, "device times: room for no measurement");
}

std::size_t DeviceLaps::begin(std::size_t section) {
  if (next_ - first_ == laps_.size()) {
    collect();
    if (next_ - first_ == laps_.size()) add_oldest();
  }
  const std::size_t lap = next_++;
  laps_[slot(lap)] = {.section = section};
  clock_->set(2 * slot(lap));
  return lap;
}

void DeviceLaps::end(std::size_t lap) noexcept {
  try {
    clock_->set(2 * slot(lap) + 1);
  } catch (...) {  // an earlier kernel's failure may show here
    failure_ = std::current_exception();
  }
  laps_[slot(lap)].ended = true;
}

void DeviceLaps::collect() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  while (first_ < next_ && laps_[slot(first_)].ended && clock_->is_reached(2 * slot(first_) + 1)) add_oldest();
}

void DeviceLaps::finish() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  while (first_ < next_ && laps_[slot(first_)].ended) add_oldest();
}

void DeviceLaps::add_oldest() {
  const std::size_t index = slot(first_);
  require(laps_[index].ended, "device times: more measurements at once than planned");
  ++first_;
  add_(laps_[index].section, clock_->seconds(2 * index, 2 * index + 1));
}

}  // namespace bert_hpc::core
