// A profiled step allocates nothing once the same calls have come in a step before it.
#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/core/call_profile.hpp"
#include "support/counted_heap.hpp"

using namespace bert_hpc::core;

TEST_CASE("a profiled step allocates nothing after the first") {
  static const char* const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  CallProfile profile;
  std::int64_t before = 0;
  for (int step = 0; step < 3; ++step) {
    if (step == 1) before = bert_hpc::test::allocations_so_far();
    {
      const ObserveCalls observed(&profile);
      for (int i = 0; i < 400; ++i) {
        profile.enter(i % 3 == 0 ? "forward" : "backward");
        const CallScope outer(DeviceCall::kernel, names[i % 8], {1, 2});
        const CallScope inner(DeviceCall::product, names[(i + 1) % 8]);
        count_call(DeviceCall::wait, names[0]);
      }
    }
    profile.collect();
  }
  CHECK(bert_hpc::test::allocations_so_far() == before);
  CHECK(before > 0);
}
