#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "app/report/progress.hpp"
#include "app/report/timing_table.hpp"

using namespace bert_hpc::app;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

namespace {

ProgressState state() {
  ProgressState s;
  s.step = 1000;
  s.total_steps = 4000;
  s.epoch = 1;
  s.loss = 0.693147;
  s.learning_rate = 1e-4;
  s.tokens_per_second = 45600;
  s.seconds_per_step = 0.1;
  return s;
}

}  // namespace

TEST_CASE("a bar appears on a capable terminal only") {
  CHECK(progress_mode("auto", true, "xterm") == ProgressMode::bar);
  CHECK(progress_mode("auto", true, "dumb") == ProgressMode::lines);
  CHECK(progress_mode("auto", true, "") == ProgressMode::lines);
  CHECK(progress_mode("auto", false, "xterm") == ProgressMode::lines);
  CHECK(progress_mode("bar", false, "xterm") == ProgressMode::lines);
  CHECK(progress_mode("bar", true, "xterm") == ProgressMode::bar);
  CHECK(progress_mode("lines", true, "xterm") == ProgressMode::lines);
  CHECK(progress_mode("none", true, "xterm") == ProgressMode::none);
}

TEST_CASE("the time left is that of steps and evaluations at their present speed") {
  CHECK(seconds_left(state()) == 300.0);
  ProgressState evaluated = state();
  evaluated.evaluations_left = 3;
  evaluated.seconds_per_evaluation = 20;
  CHECK(seconds_left(evaluated) == 360.0);
  evaluated.growth = 2;  // batches grow: the steps left take twice as long as the latest
  CHECK(seconds_left(evaluated) == 660.0);
  CHECK(seconds_left({}) < 0);
  ProgressState done = state();
  done.step = 4000;
  CHECK(seconds_left(done) == 0);
  CHECK(progress_line(state()) ==
        "step 1,000/4,000, epoch 1.00: loss 0.6931, learning rate 0.0001, 45.6 k tokens/s, 5 min 00 s left");
  CHECK_THAT(progress_line({}), !ContainsSubstring("left"));
}

TEST_CASE("the pace is that of the last steps") {
  RecentPace pace;
  CHECK(pace.seconds_per_step() < 0);
  pace.add(100, 0);  // a run that resumes
  CHECK(pace.seconds_per_step() < 0);
  double seconds = 0;
  std::int64_t steps = 100;
  const auto take = [&](int count, double each) {
    for (int i = 0; i < count; ++i) pace.add(++steps, seconds += each);
  };
  take(1, 5);
  CHECK(pace.seconds_per_step() == 5);
  take(3600, 0.01);
  CHECK_THAT(pace.seconds_per_step(), WithinRel(0.01, 1e-6));
  // The mean since the start would still be 0.016 s.
  take(1030, 0.03);
  CHECK_THAT(pace.seconds_per_step(), WithinRel(0.03, 1e-6));
  // Slow steps: the last 20, and not those of the last 30 s alone.
  take(30, 4);
  CHECK_THAT(pace.seconds_per_step(), WithinRel(4.0, 1e-6));
  take(1, 44);
  CHECK_THAT(pace.seconds_per_step(), WithinRel(6.0, 1e-6));
}

TEST_CASE("a bar fits every width") {
  for (int width = 0; width < 200; ++width)
    CHECK(progress_bar(state(), width).size() <= static_cast<std::size_t>(width));
  CHECK(progress_bar(state(), 100) ==
        " 25% [#######.....................]  loss 0.6931, 5 min 00 s left, 45.6 k tokens/s, step 1,000/4,000");
  CHECK(progress_bar(state(), 18) == " 25%  loss 0.6931");
  ProgressState beyond = state();
  beyond.step = 9000;
  CHECK_THAT(progress_bar(beyond, 100), ContainsSubstring("100%"));
}

TEST_CASE("the display is throttled, keeps the log clean and clears itself") {
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  {
    bert_hpc::core::Log log(pipes[1]);
    int columns = 20;
    ProgressDisplay display(log, ProgressMode::bar, [&columns] { return columns; });
    for (int i = 0; i < 100; ++i) display.step(state(), 0.001 * i);
    columns = 6;  // resized
    display.step(state(), 1);
    display.line(state());
    log.info("message");
    display.finish();
    log.info("end");
  }
  char buffer[1000];
  const auto size = read(pipes[0], buffer, sizeof buffer);
  CHECK(std::string(buffer, static_cast<std::size_t>(size)) ==
        "\r 25%  loss 0.6931\x1b[K\r 25%\x1b[K\r\x1b[Kmessage\n\r\x1b[Kend\n");
  close(pipes[0]);
  close(pipes[1]);
}

TEST_CASE("the timing table adds up") {
  TimingFacts facts;
  facts.sections = {
      {"forward", 1000, 1.0, 2.0, 3.0}, {"a section with a long name", 10, 5.0, 5.0, 5.0}, {"other", 0, 2.0, 3.0, 4.0}};
  facts.ranks = 2;
  facts.wall_seconds = 10;
  facts.model_flops = 200e9;
  facts.computing_seconds = 8;
  facts.tokens = 80000;
  facts.samples = 82640;
  facts.peak_gflops = 50;
  const std::string text = timing_table(facts);
  for (const char* expected : {"over 2 ranks", "1,000       1.000       2.000       3.000     20.0\n",
                               "2.000       3.000       4.000     30.0\n", "10.000      10.000      10.000    100.0\n",
                               "10.3 k sequences/s, 10.0 k tokens/s, model 25.0 GFLOP/s (25% of peak) in 8.0 s"}) {
    CHECK_THAT(text, ContainsSubstring(expected));
  }
  CHECK_THAT(text, !ContainsSubstring("padding"));
  facts.computed_tokens = 200000;
  CHECK_THAT(timing_table(facts), ContainsSubstring("10.0 k tokens/s") &&
                                      ContainsSubstring("\n  60% of the 200,000 computed tokens are padding\n"));
  CHECK_NOTHROW(timing_table({}));
}

TEST_CASE("the timing table of a GPU has its times, and the host's mean beside them") {
  TimingFacts facts;
  facts.sections = {{"forward", 1000, 0.1, 0.2, 0.3, 2.0, 3.0, 4.0},
                    {"optimizer", 10, 6.0, 6.0, 6.0, 1.0, 1.0, 1.0},
                    {"other", 0, 3.7, 3.8, 3.9, 5.0, 6.0, 7.0}};
  facts.wall_seconds = 10;
  const std::string text = timing_table(facts);
  for (const char* expected : {"by the GPU's clock", "calls  host avg s       min s       avg s       max s   % wall\n",
                               "1,000       0.200       2.000       3.000       4.000     30.0\n",
                               "10       6.000       1.000       1.000       1.000     10.0\n",
                               " 3.800       5.000       6.000       7.000     60.0\n",
                               " 10.000      10.000      10.000      10.000    100.0\n"}) {
    CHECK_THAT(text, ContainsSubstring(expected));
  }
}
