#include "app/report/rank_time.hpp"

#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace bert_hpc;

TEST_CASE("a rank's time is divided by the purpose of its sections") {
  const std::vector<core::Timers::Section> sections = {{"forward", 2, 1.0},
                                                       {"backward input", 2, 2.0},
                                                       {"backward weight", 2, 4.0},
                                                       {"backward", 1, 8.0},
                                                       {"optimizer", 1, 16.0},
                                                       {"gradient reduction", 1, 0.5},
                                                       {"parameter all-gather", 1, 0.25},
                                                       {"pipeline wait", 1, 3.0},
                                                       {"data loading", 1, 5.0},
                                                       {"evaluation", 1, 100.0},
                                                       {"checkpoint wait", 2, 300.0}};
  const app::RankTime time = app::rank_time(sections, 200.0);
  CHECK(time.computing == 31.0);
  CHECK(time.communicating == 0.75);
  CHECK(time.waiting == 8.0);
  CHECK(time.wall == 200.0);
}

TEST_CASE("a rank reports the device's time if the device has a clock") {
  const app::RankTime time = app::rank_time(
      std::vector<core::Timers::Section>{{"forward", 2, 1.0, 4.0}, {"gradient reduction", 1, 9.0, 0.5}}, 10.0);
  CHECK(time.computing == 4.0);
  CHECK(time.communicating == 0.5);
}
