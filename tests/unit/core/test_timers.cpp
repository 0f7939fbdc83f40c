#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "bert_hpc/core/timers.hpp"

TEST_CASE("timers add up calls and seconds by section, in order of first use") {
  bert_hpc::core::Timers timers;
  for (int i = 0; i < 3; ++i) {
    const auto outer = timers.measure("outer");
    const auto inner = timers.measure("inner");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  REQUIRE(timers.sections().size() == 2);
  CHECK(timers.sections()[0].name == "outer");
  CHECK(timers.sections()[0].calls == 3);
  CHECK(timers.sections()[1].seconds >= 0.006);                         // sleep_for never returns early
  CHECK(timers.sections()[0].seconds >= timers.sections()[1].seconds);  // it contains the inner one
}
