// The clock of code that decides by time. A test passes a clock that it advances itself, so that the result does not
// depend on the machine's speed.
#pragma once

#include <chrono>
#include <thread>

namespace bert_hpc::core {

class Clock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  virtual ~Clock() = default;
  virtual Time now() = 0;
  virtual void pause(Duration time) = 0;  ///< blocks the calling thread
};

/// The system's steady clock.
inline Clock& steady_clock() {
  struct Steady final : Clock {
    Time now() override { return std::chrono::steady_clock::now(); }
    void pause(Duration time) override { std::this_thread::sleep_for(time); }
  };
  static Steady clock;
  return clock;
}

}  // namespace bert_hpc::core
