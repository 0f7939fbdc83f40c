#include <catch2/catch_test_macros.hpp>

#include "app/run/watchdog.hpp"

using bert_hpc::app::LivenessTable;
using Change = LivenessTable::Change;

namespace {

const bert_hpc::app::WatchdogSettings settings{.seconds = 10, .limit_seconds = 30};

}  // namespace

TEST_CASE("a silent rank is named once, and once more when it is back") {
  LivenessTable table(settings, 3, 0);
  CHECK(table.heard(1, 1) == Change::none);
  CHECK(table.heard(2, 1) == Change::none);
  CHECK(table.judge(1, 10.9, 0) == Change::none);
  CHECK(table.judge(1, 11, 0) == Change::silent);
  CHECK(table.judge(1, 12, 0) == Change::none);
  CHECK(table.heard(2, 12) == Change::none);
  CHECK(table.heard(1, 13) == Change::back);
  CHECK(table.heard(1, 14) == Change::none);
  CHECK(table.judge(1, 23, 0) == Change::none);
  CHECK(table.judge(1, 24, 0) == Change::silent);
}

TEST_CASE("a rank that stays silent ends the run, one that has left does not") {
  LivenessTable table(settings, 3, 0);
  table.heard(1, 0);
  table.heard(2, 0);
  table.ended(2);
  CHECK(table.judge(1, 10, 0) == Change::silent);
  CHECK(table.judge(1, 29.9, 0) == Change::none);
  CHECK(table.judge(1, 30, 0) == Change::over);
  CHECK(table.judge(1, 31, 0) == Change::none);
  CHECK(table.judge(2, 1000, 0) == Change::none);
}

TEST_CASE("a rank without any heartbeat is reported, and never ends a run") {
  LivenessTable table(settings, 2, 5);
  CHECK(table.judge(1, 14.9, 0) == Change::none);
  CHECK(table.judge(1, 15, 0) == Change::silent);
  CHECK(table.judge(1, 1000, 0) == Change::none);
  CHECK(table.heard(1, 1001) == Change::none);  // it was not missing: it could not be heard
  CHECK(table.judge(1, 1011, 0) == Change::silent);
}

TEST_CASE("a rank that was suspended itself reports no other rank; without a limit no run ends") {
  LivenessTable table({.seconds = 10, .limit_seconds = 0}, 2, 0);
  table.heard(1, 0);
  table.forgive(100);
  CHECK(table.judge(1, 109, 0) == Change::none);
  CHECK(table.judge(1, 110, 0) == Change::silent);
  CHECK(table.judge(1, 1e6, 0) == Change::none);
  CHECK(table.heard(1, 1e6) == Change::back);
}

TEST_CASE("a rank that takes part in the steps is alive, with or without its heartbeats") {
  LivenessTable table(settings, 2, 0);
  table.heard(1, 0);
  for (int t = 1; t < 10; ++t) CHECK(table.judge(1, t, 5 * t) == Change::none);
  CHECK(table.judge(1, 10, 50) == Change::unreachable);
  CHECK_FALSE(table.known(1));
  CHECK_FALSE(table.anyone_is_silent());
  for (int t = 11; t < 1000; ++t) CHECK(table.judge(1, t, 5 * t) == Change::none);
  CHECK(table.judge(1, 2000, 5000) == Change::none);  // a long evaluation, say: it is not watched
  CHECK(table.heard(1, 2000) == Change::none);
  CHECK(table.judge(1, 2009, 5000) == Change::none);
  CHECK(table.judge(1, 2010, 5001) == Change::silent);  // one more step may have been its own last one
  CHECK(table.judge(1, 2030, 5001) == Change::over);
}

TEST_CASE("steps before a rank fell silent are no sign of life after") {
  LivenessTable table(settings, 2, 0);
  table.heard(1, 0);
  CHECK(table.judge(1, 0.5, 100) == Change::none);  // its signs are rarer than steps
  CHECK(table.judge(1, 10.4, 100) == Change::none);
  CHECK(table.judge(1, 10.5, 100) == Change::silent);
  CHECK(table.judge(1, 30.5, 100) == Change::over);
}

TEST_CASE("a run without progress on any rank is stalled, and this is reported once") {
  using bert_hpc::app::GlobalStall;
  using Still = GlobalStall::Change;
  GlobalStall table(10, 3, 0);
  table.seen(0, 5, 1);
  table.seen(1, 5, 2);
  table.seen(2, 7, 4);  // the last that moved
  table.seen(1, 5, 13);
  CHECK(table.judge(13.9) == Still::none);
  CHECK(table.judge(14) == Still::still);
  CHECK(table.judge(15) == Still::none);
  table.seen(1, 6, 20);
  CHECK(table.judge(20) == Still::moving);
  CHECK(table.judge(29) == Still::none);
  CHECK(table.judge(30) == Still::still);
  table.forgive(40);
  CHECK(table.judge(49) == Still::none);
  CHECK(table.judge(50) == Still::still);
}

TEST_CASE("a rank in another section than most ranks is reported first") {
  const std::vector<std::string> hosts = {"a", "a", "b", "b", "c"};
  CHECK(bert_hpc::app::whereabouts({"sum", "sum", "sum", "data", "sum"}, hosts) ==
        "rank 3 on b is in \"data\", ranks 0-2, 4 are in \"sum\"");
  CHECK(bert_hpc::app::whereabouts({"sum", "sum"}, hosts) == "ranks 0, 1 are in \"sum\"");
}
