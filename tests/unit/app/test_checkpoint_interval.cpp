// The rule for the time between checkpoints, and the note on an earlier start that left none.
#include "app/plan/checkpoint_interval.hpp"

#include <catch2/catch_test_macros.hpp>

#include "app/run/earlier_start.hpp"

using bert_hpc::app::checkpoint_interval;
using bert_hpc::app::earlier_start_note;

TEST_CASE("a killed run loses at most 5% of its time or ten minutes") {
  CHECK(checkpoint_interval(1000, 0.1) == 50);
  CHECK(checkpoint_interval(12000, 0.1) == 600);
  CHECK(checkpoint_interval(1e6, 0.1) == 600);
}

TEST_CASE("checkpoints take at most 2% of the time") {
  CHECK(checkpoint_interval(1000, 2) == 100);
  CHECK(checkpoint_interval(1e6, 60) == 3000);
}

TEST_CASE("the shortest interval is 10 s, and a run of unknown length gets the longest") {
  CHECK(checkpoint_interval(20, 0) == 10);
  CHECK(checkpoint_interval(0, 0) == 600);
}

TEST_CASE("a start reports the steps that an earlier start has lost") {
  CHECK(earlier_start_note("running", 40, 0) ==
        "the earlier start was killed at step 40 or later, without a checkpoint: starting from the beginning");
  CHECK(earlier_start_note("running", 0, 0) ==
        "the earlier start was killed before it recorded a step, without a checkpoint: starting from the beginning");
  CHECK(earlier_start_note("failed", 2040, 2000) ==
        "the earlier start failed at step 2,040 or later; its last checkpoint is of step 2,000: the steps after it are "
        "repeated");
  CHECK(earlier_start_note("running", 40, 40).empty());
  CHECK(earlier_start_note("stopped", 40, 30).empty());
  CHECK(earlier_start_note("finished", 40, 0).empty());
}
