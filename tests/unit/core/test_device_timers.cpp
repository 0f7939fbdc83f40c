// Device times of sections, with a clock whose device lags behind as the test says.
#include "bert_hpc/core/device_timers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "bert_hpc/core/timers.hpp"

using namespace bert_hpc::core;

namespace {

/// A device that does one unit of work between two marks and stops after `done` of them.
struct FakeDevice {
  double time = 0;
  int marks_set = 0, done = 0, waits = 0;
  bool fails = false;
};

class FakeClock final : public DeviceClock {
 public:
  FakeClock(FakeDevice& device, std::size_t marks) : device_(device), marks_(marks) {}
  void set(std::size_t mark) override {
    if (device_.fails) throw std::runtime_error("the device failed");
    marks_.at(mark) = {device_.time, ++device_.marks_set};
  }
  bool is_reached(std::size_t mark) override { return marks_.at(mark).order <= device_.done; }
  double seconds(std::size_t begin, std::size_t end) override {
    if (!is_reached(end)) {
      ++device_.waits;
      device_.done = marks_.at(end).order;
    }
    return marks_.at(end).time - marks_.at(begin).time;
  }

 private:
  struct Mark {
    double time = 0;
    int order = 0;
  };
  FakeDevice& device_;
  std::vector<Mark> marks_;
};

struct Fixture {
  explicit Fixture(std::size_t laps) { timers.use_device_clock(std::make_unique<FakeClock>(device, 2 * laps), laps); }
  void section(const char* name, double seconds) {
    const auto timed = timers.measure(name);
    device.time += seconds;
  }
  double seconds(std::size_t i) const { return timers.sections().at(i).device_seconds; }

  FakeDevice device;
  Timers timers;
};

}  // namespace

TEST_CASE("sections get the device's times when it has reached their ends, and nothing waits for it") {
  Fixture step(4);
  step.section("forward", 2);
  step.section("backward", 4);
  step.timers.collect();
  CHECK(step.seconds(0) == 0);  // the device has done nothing yet
  step.device.done = 3;         // forward, and the begin of backward
  step.timers.collect();
  CHECK(step.seconds(0) == 2);
  CHECK(step.seconds(1) == 0);
  step.section("forward", 3);
  step.device.done = step.device.marks_set;
  step.timers.collect();
  step.timers.collect();  // no time is added twice
  CHECK(step.seconds(0) == 5);
  CHECK(step.seconds(1) == 4);
  CHECK(step.timers.sections()[0].calls == 2);
  CHECK(step.device.waits == 0);

  step.section("optimizer", 1);
  step.timers.finish();
  CHECK(step.seconds(2) == 1);
  CHECK(step.device.waits == 1);
}

TEST_CASE("an open section, within which others end, is added after its end") {
  Fixture step(4);
  {
    const auto outer = step.timers.measure("evaluation");
    step.section("forward", 2);
    step.device.time += 1;
    step.device.done = step.device.marks_set;
    step.timers.collect();
    CHECK(step.seconds(1) == 0);  // in the order of begins
  }
  step.device.done = step.device.marks_set;
  step.timers.collect();
  CHECK(step.seconds(0) == 3);
  CHECK(step.seconds(1) == 2);
}

TEST_CASE("a ring that is full waits for its oldest measurement, and rings of any size lose none") {
  for (const std::size_t laps : {1, 2, 3, 7}) {
    Fixture step(laps);
    for (int i = 0; i < 20; ++i) step.section("forward", 1);
    step.timers.finish();
    CHECK(step.seconds(0) == 20);
    CHECK(step.timers.sections()[0].calls == 20);
  }
  Fixture step(2);
  for (int i = 0; i < 4; ++i) step.section("forward", 1);
  CHECK(step.device.waits == 2);
}

TEST_CASE("a failure at a section's end is reported by collect, not by the destructor") {
  Fixture step(4);
  {
    const auto timed = step.timers.measure("forward");
    step.device.fails = true;
  }
  CHECK_THROWS_AS(step.timers.collect(), std::runtime_error);
}

TEST_CASE("without a device's clock a section's work is timed by the host, and clear() keeps the clock") {
  Timers host;
  { const auto timed = host.measure("forward"); }
  host.collect();
  host.finish();
  CHECK_FALSE(host.has_device_clock());
  CHECK(std::isnan(host.sections()[0].device_seconds));
  CHECK(host.sections()[0].work_seconds() == host.sections()[0].seconds);

  Fixture step(4);
  step.section("forward", 2);
  step.timers.clear();
  CHECK(step.timers.has_device_clock());
  CHECK(step.timers.sections()[0].calls == 0);
  step.section("forward", 1);
  step.timers.finish();
  CHECK(step.timers.sections()[0].work_seconds() == 1);
}

TEST_CASE("the build's own clock measures at least the time that passes") {
  Timers timers;
  timers.use_device_clock(make_device_clock(4), 2);
  for (int i = 0; i < 3; ++i) {
    const auto timed = timers.measure("forward");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // never returns early
  }
  timers.finish();
  CHECK(timers.sections()[0].device_seconds >= 0.006);
}
