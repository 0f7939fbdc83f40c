#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <thread>

#include "bert_hpc/core/device_timers.hpp"

using bert_hpc::core::DeviceTimers;

namespace {

void work() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // never returns early
}

}  // namespace

TEST_CASE("device timers add up laps by section, in order of first use") {
  DeviceTimers timers(3);
  REQUIRE(timers.is_on());
  for (int step = 0; step < 2; ++step) {
    timers.start();
    work();
    timers.lap("forward");
    timers.lap("backward");
    work();
    timers.lap("forward");
    timers.collect();
  }
  REQUIRE(timers.sections().size() == 2);
  CHECK(timers.sections()[0].name == "forward");
  CHECK(timers.sections()[0].calls == 4);
  CHECK(timers.sections()[0].seconds >= 0.008);
  CHECK(timers.sections()[1].name == "backward");
  CHECK(timers.sections()[1].calls == 2);
  CHECK(timers.sections()[1].seconds >= 0.0);
  timers.clear();
  CHECK(timers.sections().empty());
}

TEST_CASE("device timers discard laps before a start, ignore laps beyond their capacity, and may be off") {
  DeviceTimers timers(1);
  timers.start();
  work();
  timers.lap("discarded");
  timers.start();
  timers.lap("kept");
  timers.lap("beyond");
  timers.collect();
  timers.collect();  // no time is added twice
  REQUIRE(timers.sections().size() == 1);
  CHECK(timers.sections()[0].name == "kept");
  CHECK(timers.sections()[0].calls == 1);

  DeviceTimers off(0);
  CHECK(!off.is_on());
  off.start();
  off.lap("forward");
  off.collect();
  CHECK(off.sections().empty());
}
