#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/config/walltime.hpp"

using bert_hpc::config::walltime_seconds;

TEST_CASE("every form of Slurm's times") {
  CHECK(walltime_seconds("90") == 90 * 60);
  CHECK(walltime_seconds("1:30") == 90);
  CHECK(walltime_seconds("0:05") == 5);
  CHECK(walltime_seconds("12:00:00") == 12 * 3600);
  CHECK(walltime_seconds("02:03:04") == 2 * 3600 + 3 * 60 + 4);
  CHECK(walltime_seconds("2-12") == 60 * 3600);
  CHECK(walltime_seconds("2-12:30") == 60 * 3600 + 30 * 60);
  CHECK(walltime_seconds("2-12:30:15") == 60 * 3600 + 30 * 60 + 15);
  CHECK(walltime_seconds("1-0") == 86400);
}

TEST_CASE("anything else is no time") {
  for (const char* text : {"", "0", "0:00", "-5", "1-", "-", "1:2:3:4", "1-2:3:4:5", "1:", ":1", "12h", "1.5", " 5",
                           "1--2", "1-2-3", "99999999999999999999", "UNLIMITED"}) {
    INFO(text);
    CHECK_FALSE(walltime_seconds(text));
  }
}
