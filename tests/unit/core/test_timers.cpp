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

TEST_CASE("spans are kept on request, as many as there is room for") {
  bert_hpc::core::Timers timers;
  std::vector<bert_hpc::core::Timers::Span> spans;
  spans.reserve(2);
  const std::size_t room = spans.capacity();
  { const auto before = timers.measure("before"); }
  timers.record(&spans);
  for (std::size_t i = 0; i < room + 3; ++i) const auto section = timers.measure("section");
  timers.record(nullptr);
  { const auto after = timers.measure("after"); }
  REQUIRE(spans.size() == room);
  CHECK(spans[0].name == "section");
  CHECK(spans[0].begin <= spans[0].end);
  CHECK(spans[0].end <= spans[1].begin);
  CHECK(timers.sections().size() == 3);
}
