// The recorder of calls: sums by section and name, nested calls, unknown work, calls of unknown time.
#include "bert_hpc/core/call_profile.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/timers.hpp"

using namespace bert_hpc::core;

namespace {

void sleep_for(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TEST_CASE("a profile sums calls, seconds and work by section and name") {
  CallProfile profile;
  Timers timers;
  const double begin = now();
  {
    const ObserveCalls observed(&profile);
    for (int step = 0; step < 3; ++step) {
      const auto outer = timers.measure("outer");
      {
        const CallScope call(DeviceCall::product, "p", {10, 4});
        sleep_for(2);
      }
      const auto inner = timers.measure("inner");
      const CallScope call(DeviceCall::product, "p", {100, 40});
    }
  }
  { const CallScope call(DeviceCall::product, "p", {1, 1}); }  // without an observer
  const double wall = now() - begin;
  profile.collect();
  REQUIRE(profile.entries().size() == 2);
  const CallProfile::Entry &outer = profile.entries()[0], &inner = profile.entries()[1];
  CHECK(outer.section == "outer");
  CHECK(inner.section == "inner");
  CHECK(outer.calls == 3);
  CHECK(outer.work.flops == 30);
  CHECK(outer.work.bytes == 12);
  CHECK(inner.work.flops == 300);
  CHECK(outer.seconds >= 0.006);
  CHECK(inner.seconds >= 0);
  CHECK(outer.seconds + inner.seconds <= wall);
}

TEST_CASE("a call's time is without that of calls within it") {
  CallProfile profile;
  const double begin = now();
  {
    const ObserveCalls observed(&profile);
    const CallScope outer(DeviceCall::collective, "broadcast");
    sleep_for(2);
    const CallScope inner(DeviceCall::collective, "barrier");
    sleep_for(4);
  }
  const double wall = now() - begin;
  profile.collect();
  REQUIRE(profile.entries().size() == 2);
  const double outer = profile.entries()[0].seconds, inner = profile.entries()[1].seconds;
  CHECK(outer >= 0.002);
  CHECK(inner >= 0.004);
  CHECK(outer + inner <= wall);
}

TEST_CASE("work that one call does not know makes the sum unknown, and a call of unknown time has none") {
  CallProfile profile;
  const ObserveCalls observed(&profile);
  { const CallScope call(DeviceCall::kernel, "k", {.flops = unknown_work, .bytes = 8}); }
  { const CallScope call(DeviceCall::kernel, "k", {5, 8}); }
  count_call(DeviceCall::wait, "w");
  profile.collect();
  REQUIRE(profile.entries().size() == 2);
  CHECK(std::isnan(profile.entries()[0].work.flops));
  CHECK(profile.entries()[0].work.bytes == 16);
  CHECK(profile.entries()[1].calls == 1);
  CHECK(std::isnan(profile.entries()[1].seconds));
}

TEST_CASE("equal names at several addresses are one call; kinds are separate") {
  const std::string one = "name", other = "name";  // of the same text
  CallProfile profile;
  const ObserveCalls observed(&profile);
  { const CallScope call(DeviceCall::kernel, one); }
  { const CallScope call(DeviceCall::kernel, other); }
  { const CallScope call(DeviceCall::copy, one); }
  profile.collect();
  REQUIRE(profile.entries().size() == 2);
  CHECK(profile.entries()[0].calls == 2);
  CHECK(profile.entries()[1].calls == 1);
}

TEST_CASE("copies and fills know their bytes") {
  const MirroredArray<double> array(8);
  CallProfile profile;
  const ObserveCalls observed(&profile);
  fill_on_device(array.device(), 0, 8 * sizeof(double));
  copy_on_device(array.device(), array.device() + 4, 4 * sizeof(double));
  copy_on_device(array.device(), array.device(), 8 * sizeof(double));  // to itself: moves nothing
  profile.collect();
  REQUIRE(profile.entries().size() == 2);
  CHECK(profile.entries()[0].work.bytes == 64);
  CHECK(profile.entries()[1].calls == 2);
  CHECK(profile.entries()[1].work.bytes == 64);  // 4 read and 4 written
}
