// A clock that moves only when a test says so, or by the pauses of the code under test.
#pragma once

#include <functional>

#include "bert_hpc/core/clock.hpp"

namespace bert_hpc::test {

class ManualClock final : public bert_hpc::core::Clock {
 public:
  Time now() override { return now_; }
  /// Advances by `time` instead of blocking, and does what happens meanwhile.
  void pause(Duration time) override {
    ++pauses_;
    now_ += time;
    if (during_pause) during_pause(pauses_);
  }

  void advance(Duration time) { now_ += time; }
  int pauses() const { return pauses_; }
  Duration passed() const { return now_.time_since_epoch(); }

  /// Called during each pause with its number, from 1.
  std::function<void(int)> during_pause;

 private:
  Time now_{};
  int pauses_ = 0;
};

}  // namespace bert_hpc::test
