// When a run stops for its wall-time limit.
#include "app/run/wall_time.hpp"

#include <catch2/catch_test_macros.hpp>

using bert_hpc::app::WallTime;

TEST_CASE("a run stops early enough for a step, its checkpoint and the end") {
  WallTime time("0:10:00", 200'000'000);  // 2 s at 100 MB/s
  CHECK(time.saving_seconds() == 2);
  time.step(10);
  CHECK_FALSE(time.is_over(594.9));  // 1.5 times the checkpoint and 2 s
  CHECK(time.is_over(595));
  time.step(30);
  time.step(31);
  CHECK_FALSE(time.is_over(554.9));  // and twice the longest step
  CHECK(time.is_over(555));
  time.saved(10);
  CHECK_FALSE(time.is_over(542.9));
  CHECK(time.is_over(543));
}

TEST_CASE("a run uses at least half of its wall-time limit") {
  WallTime time("0:20", 0);
  time.step(1);
  time.step(9);
  CHECK_FALSE(time.is_over(9.9));
  CHECK(time.is_over(10));
}

TEST_CASE("a run without a wall-time limit does not stop for it") {
  WallTime time(std::nullopt, 1000);
  time.step(1);
  CHECK_FALSE(time.is_over(1e9));
}
