#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>

#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "bert_hpc/io/journal.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "rebuilt_metrics.hpp"
#include "support/manual_clock.hpp"
#include "support/temporary_directory.hpp"

namespace {

std::atomic<int> forced_writes = 0;

}  // namespace

// Instead of the system's: these count.
extern "C" int fsync(int file) {
  ++forced_writes;
  return static_cast<int>(syscall(SYS_fsync, file));
}

extern "C" int fdatasync(int file) {
  ++forced_writes;
  return static_cast<int>(syscall(SYS_fdatasync, file));
}

using namespace bert_hpc::io;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using bert_hpc::test::rebuild_metrics;
using bert_hpc::test::TemporaryDirectory;
using Catch::Matchers::ContainsSubstring;

namespace {

StepRow step_row(std::int64_t step) {
  return {step, 0.1 * static_cast<double>(step), 1.0 / static_cast<double>(step), 1e-3, 0.5, 64, 1100, 0.25};
}

Hdf5File open_metrics(const TemporaryDirectory& directory) {
  return Hdf5File::open_read(metrics_path(directory.path()), ExitCode::files);
}

std::vector<std::int64_t> steps_of(const TemporaryDirectory& directory) {
  return open_metrics(directory).read<std::int64_t>("steps/step", 1 << 24);
}

RunInfo example_info() {
  RunInfo info;
  info.version = "0.1.0";
  info.source_revision = "abc";
  info.resolved_input = "[run]\n\tmode = \"train\" # back\\slash\n";
  info.mode = "train";
  info.task = "classification";
  info.label_names = {"noun.act", "mit Leerzeichen", ""};
  info.provenance = {{"HDF5", hdf5_version()}};
  info.data = 3;
  info.pipeline = 2;
  info.tensor = 4;
  info.label_means = {6.5};
  info.label_deviations = {1.0 / 3};
  info.parameters = 1000;
  info.trained_parameters = 10;
  return info;
}

}  // namespace

TEST_CASE("metrics.h5 holds the recorded values under the documented names") {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory.path(), example_info());
  CHECK(open_metrics(directory).text_attribute("/", "status") == "running");
  CHECK(steps_of(directory).empty());
  for (std::int64_t step = 1; step <= 3; ++step) {
    StepRow row = step_row(step);
    row.computed_tokens = step == 1 ? 0 : 2000;  // 0: as of an older version
    writer.record_step(row);
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  writer.record_evaluation("validation", {2, 0.7, {{"accuracy", 0.5}}, 2, {1, 2, 3, 4}});
  writer.record_evaluation(
      "validation", {3, 0.6, {{"accuracy", 0.75}, {"macro_f1", nan}}, 2, {5, 6, 7, 8}, 0, {11, 15, 12, 14, 5, 8}});
  writer.record_evaluation("test", {3, 0.65, {{"rmse", 0.1}}, 0, {}});
  writer.record_timers({{"forward", 3, 0.1, 0.2, 0.3}, {"with\ttab", 1, 1, 1, 1}});
  writer.record_ranks({{"node1", "CPU", 2, 1 << 20, 0.9, nan},
                       {"node2", "CPU", 2, 1 << 21, 0.8, nan, 1 << 19, 1 << 20, 3.0, 2.0, 1.0, 0.7, 5e9, 123.5}});
  writer.record_memory({{"activations", {700, 800}}, {"optimizer states", {90}}});
  writer.record_rank_sample(1.5, {0.1, 0.2}, {100, nan}, {5e8, nan});
  writer.record_efficiency({3, 1000, 0.9, 0.95});
  writer.record_data({2, 1.0, 5000, {4000, 900}});
  writer.record_data({4, 2.0, 5000, {7}});  // started again on fewer nodes
  writer.record_loss_scale({3, 32768, 1});
  writer.record_profile({.first_step = 3, .steps = 2, .ranks = 4, .on_gpu = 1, .seconds = 0.5, .cost = 0.01});
  writer.record_profile({3, 20, 4, 0, 0.5, 0.01, 100, {{"", "kernels", "k", 5, 0.1, 0.2, 0.3, nan, 1e9}}});
  writer.set_total("flops", 1e15);
  writer.set_status(RunStatus::finished);
  writer.close();

  const Hdf5File file = open_metrics(directory);
  CHECK(file.text_attribute("/", "schema") == "bert_hpc metrics 1");
  CHECK(file.text_attribute("/", "resolved_input") == example_info().resolved_input);
  CHECK(file.text_attributes("/", "label_names") == example_info().label_names);
  CHECK(file.text_attribute("/", "status") == "finished");
  CHECK(file.text_attribute("/", "started").size() == 20);
  CHECK(file.text_attribute("provenance", "HDF5") == hdf5_version());
  CHECK(file.integer_attribute("/", "parallel_data") == 3);
  CHECK(file.integer_attribute("/", "parallel_pipeline") == 2);
  CHECK(file.integer_attribute("/", "parallel_tensor") == 4);
  CHECK(file.real_attributes("/", "label_mean") == std::vector{6.5});
  CHECK(file.real_attributes("/", "label_deviation") == std::vector{1.0 / 3});
  CHECK(file.integer_attribute("/", "parameters") == 1000);
  CHECK(file.integer_attribute("/", "trained_parameters") == 10);
  CHECK(file.integer_attribute("/", "total_samples") == 192);
  CHECK(file.integer_attribute("/", "total_steps") == 3);
  CHECK(file.real_attributes("/", "total_seconds") == std::vector{0.75});
  CHECK(file.real_attributes("/", "total_flops") == std::vector{1e15});
  CHECK(file.names("steps") == std::vector<std::string>{"computed_tokens", "epoch", "gradient_norm", "learning_rate",
                                                        "loss", "samples", "seconds", "skipped", "step", "tokens"});
  CHECK(file.read<double>("steps/loss", 3) == std::vector<double>{1, 0.5, 1.0 / 3});  // text keeps every bit
  CHECK(file.read<std::int64_t>("steps/tokens", 3)[2] == 1100);
  CHECK(file.read<std::int64_t>("steps/computed_tokens", 3) == std::vector<std::int64_t>{1100, 2000, 2000});
  CHECK(file.integer_attribute("/", "total_computed_tokens") == 5100);
  CHECK(file.read<double>("evaluations/validation/accuracy", 2) == std::vector<double>{0.5, 0.75});
  CHECK(std::isnan(file.read<double>("evaluations/validation/macro_f1", 2)[0]));
  CHECK(file.info("evaluations/validation/confusion_matrix").extents == std::vector<std::int64_t>{2, 2, 2});
  CHECK(file.read<std::int64_t>("evaluations/validation/confusion_matrix", 8)[5] == 6);
  CHECK_FALSE(file.exists("evaluations/test/confusion_matrix"));
  const std::string per_class = "evaluations/validation/per_class";
  CHECK(file.names(per_class) == std::vector<std::string>{"f1", "precision", "recall", "support"});
  CHECK(file.info(per_class + "/f1").extents == std::vector<std::int64_t>{2, 2});
  CHECK(file.read<std::int64_t>(per_class + "/support", 4) == std::vector<std::int64_t>{0, 0, 11, 15});
  const std::vector<double> precision = file.read<double>(per_class + "/precision", 4);
  CHECK(std::isnan(precision[0]));  // the first evaluation was recorded without counts
  CHECK(precision[3] == 8.0 / 14);
  CHECK(file.read<double>(per_class + "/recall", 4)[2] == 5.0 / 11);
  CHECK(file.read<double>(per_class + "/f1", 4)[3] == 16.0 / 29);
  CHECK_FALSE(file.exists("evaluations/test/per_class"));
  CHECK(file.read_text("timers/name", 2) == std::vector<std::string>{"forward", "with\ttab"});
  CHECK(file.read<double>("timers/seconds_avg", 2)[0] == 0.2);
  CHECK_FALSE(file.exists("timers/device_seconds_avg"));
  CHECK(file.read_text("ranks/host", 2)[1] == "node2");
  CHECK(file.read<std::int64_t>("ranks/start_memory", 2) == std::vector<std::int64_t>{0, 1 << 19});
  CHECK(file.read<std::int64_t>("ranks/planned_memory", 2) == std::vector<std::int64_t>{0, 1 << 20});
  CHECK(file.read<double>("ranks/computing", 2) == std::vector<double>{0, 3});
  CHECK(file.read<double>("ranks/waiting", 2)[1] == 1.0);
  CHECK(file.read<double>("ranks/gpu_utilisation", 2)[1] == 0.7);
  CHECK(file.read<double>("ranks/gpu_memory", 2)[1] == 5e9);
  CHECK(file.read<double>("ranks/energy", 2)[1] == 123.5);
  CHECK(file.read_text("ranks/memory/purpose", 2) == std::vector<std::string>{"activations", "optimizer states"});
  CHECK(file.read<std::int64_t>("ranks/memory/bytes", 4) == std::vector<std::int64_t>{700, 800, 90, 0});
  CHECK(file.info("ranks/samples/power").extents == std::vector<std::int64_t>{1, 2});
  CHECK(file.read<double>("ranks/samples/memory", 2)[0] == 5e8);
  CHECK(file.read<double>("efficiency/goodput", 1)[0] == 0.95);
  CHECK(file.info("data/bytes_read").extents == std::vector<std::int64_t>{2, 2});
  CHECK(file.read<std::int64_t>("data/bytes_read", 4) == std::vector<std::int64_t>{4000, 900, 7, 0});
  CHECK(file.read<std::int64_t>("data/file_bytes", 2)[1] == 5000);
  CHECK(file.read<double>("data/epoch", 2)[1] == 2.0);
  CHECK(file.read<double>("loss_scale/scale", 1)[0] == 32768);
  CHECK(file.read<std::int64_t>("loss_scale/skipped", 1)[0] == 1);
  CHECK(file.integer_attribute("profile", "steps") == 20);  // the second one
  CHECK(file.text_attribute("profile", "device") == "CPU");
  CHECK(file.real_attributes("profile", "cost_seconds") == std::vector{0.01});
  CHECK(file.real_attributes("profile", "peak_gflops") == std::vector{100.0});
  CHECK(file.read_text("profile/name", 1) == std::vector<std::string>{"k"});
  CHECK(file.read<std::int64_t>("profile/calls", 1)[0] == 5);
  CHECK(file.read<double>("profile/seconds_max", 1)[0] == 0.3);
  CHECK(std::isnan(file.read<double>("profile/flops", 1)[0]));
}

TEST_CASE("times of sections by the device's clock stand beside the host's") {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory.path(), example_info());
  writer.record_timers({{"forward", 3, 0.1, 0.2, 0.3, 1.0, 2.0, 3.0}, {"optimizer", 1, 1, 1, 1, 0.5, 0.5, 0.5}});
  writer.close();
  const Hdf5File file = open_metrics(directory);
  CHECK(file.read<double>("timers/device_seconds_min", 2) == std::vector<double>{1.0, 0.5});
  CHECK(file.read<double>("timers/device_seconds_avg", 2) == std::vector<double>{2.0, 0.5});
  CHECK(file.read<double>("timers/device_seconds_max", 2) == std::vector<double>{3.0, 0.5});
  CHECK(file.read<double>("timers/seconds_avg", 2)[0] == 0.2);
}

namespace {

/// A clock that advances by a second with each reading.
struct SlowClock final : bert_hpc::core::Clock {
  int readings = 0;
  Time now() override { return Time(std::chrono::seconds(readings++)); }
  void pause(Duration) override {}
};

}  // namespace

TEST_CASE("poll makes a snapshot only when due and needed") {
  const TemporaryDirectory directory;
  bert_hpc::test::ManualClock clock;
  MetricsWriter writer(directory.path(), example_info(), {.interval = 5, .clock = &clock});
  clock.advance(std::chrono::seconds(5));
  CHECK_FALSE(writer.poll());  // no new row
  writer.record_step(step_row(1));
  CHECK(writer.poll());
  CHECK(steps_of(directory) == std::vector<std::int64_t>{1});
  writer.record_step(step_row(2));
  clock.advance(std::chrono::milliseconds(4999));
  CHECK_FALSE(writer.poll());
  CHECK(steps_of(directory) == std::vector<std::int64_t>{1});
  clock.advance(std::chrono::milliseconds(1));
  CHECK(writer.poll());
  CHECK(steps_of(directory) == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("snapshots take at most a twentieth of the time") {
  const TemporaryDirectory directory;
  SlowClock clock;  // a snapshot reads it when it begins and when it ends: it takes a second
  MetricsWriter writer(directory.path(), example_info(), {.interval = 5, .clock = &clock});
  writer.record_step(step_row(1));
  int polls = 1;
  while (!writer.poll()) ++polls;
  // The first snapshot began at 0 s, so the next is due at 20 s; the first poll is at 2 s.
  CHECK(polls == 19);
}

TEST_CASE("a resumed run keeps the rows up to its step and the first start's time") {
  const TemporaryDirectory directory;
  RunInfo info = example_info();
  info.started = "2026-01-01T00:00:00Z";
  {
    MetricsWriter writer(directory.path(), info);
    for (std::int64_t step = 1; step <= 10; ++step) writer.record_step(step_row(step));
    writer.record_evaluation("validation", {5, 0.7, {}, 0, {}});
    writer.record_evaluation("validation", {10, 0.7, {}, 0, {}});
    writer.set_status(RunStatus::stopped);
  }
  info.started = "2026-01-02T00:00:00Z";
  {
    MetricsWriter writer(directory.path(), info, {.interval = 5, .resume_step = 6});
    CHECK(writer.warnings().empty());
    CHECK(steps_of(directory).size() == 6);
    CHECK(open_metrics(directory).text_attribute("/", "status") == "running");
    writer.record_step(step_row(7));
  }
  CHECK(steps_of(directory) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7});
  CHECK(open_metrics(directory).read<std::int64_t>("evaluations/validation/step", 9) == std::vector<std::int64_t>{5});
  CHECK(open_metrics(directory).text_attribute("/", "started") == "2026-01-01T00:00:00Z");
  CHECK(open_metrics(directory).text_attributes("/", "restarts") == std::vector<std::string>{"2026-01-02T00:00:00Z"});
  std::filesystem::remove(metrics_path(directory.path()));
  CHECK(rebuild_metrics(directory.path()) == 0);
  CHECK(steps_of(directory).size() == 7);

  std::filesystem::remove(metrics_journal_path(directory.path()));
  const MetricsWriter writer(directory.path(), info, {.interval = 5, .resume_step = 6});
  REQUIRE(writer.warnings().size() == 1);
  CHECK_THAT(writer.warnings()[0], ContainsSubstring("are kept in"));
}

TEST_CASE("a damaged journal loses only its damaged lines") {
  const TemporaryDirectory directory;
  {
    MetricsWriter writer(directory.path(), example_info());
    for (std::int64_t step = 1; step <= 5; ++step) writer.record_step(step_row(step));
  }
  const std::string path = metrics_journal_path(directory.path());
  const std::string good = bert_hpc::test::file_bytes(path);
  // Torn after every byte of the last two lines.
  const std::size_t fourth = good.rfind("step\t4") - 9;
  for (std::size_t kept = fourth; kept < good.size(); ++kept) {
    bert_hpc::test::write_bytes(path, good.substr(0, kept));
    const std::int64_t bad = rebuild_metrics(directory.path());
    const std::size_t rows = steps_of(directory).size();
    // A line that lacks only its newline is whole.
    const bool between_lines = good[kept - 1] == '\n' || good[kept] == '\n';
    const std::size_t fifth_ends = good.size() - 1, fourth_ends = good.rfind("step\t5") - 10;
    INFO("kept " << kept);
    CHECK(bad == (between_lines ? 0 : 1));
    CHECK(rows == (kept < fourth_ends ? 3u : kept < fifth_ends ? 4u : 5u));
  }
  // A flipped bit in the middle.
  std::string flipped = good;
  flipped[good.find("step\t3") + 8] ^= 1;
  bert_hpc::test::write_bytes(path, flipped);
  CHECK(rebuild_metrics(directory.path()) == 1);
  CHECK(steps_of(directory) == std::vector<std::int64_t>{1, 2, 4, 5});
  // Torn, then continued.
  bert_hpc::test::write_bytes(path, good.substr(0, good.size() - 3));
  {
    MetricsWriter writer(directory.path(), example_info(), {.interval = 5, .resume_step = 4});
    CHECK(writer.warnings().size() == 1);
    writer.record_step(step_row(5));
  }
  CHECK(steps_of(directory).size() == 5);
  CHECK(rebuild_metrics(directory.path()) == 1);
  CHECK(steps_of(directory).size() == 5);
}

TEST_CASE("an evaluation that is done again replaces the first") {
  const TemporaryDirectory directory;
  {
    MetricsWriter writer(directory.path(), example_info());
    for (const char* split : {"validation", "test"}) writer.record_evaluation(split, {5, 0.7, {}, 0, {}});
    writer.record_evaluation("validation", {6, 0.6, {}, 0, {}});
  }
  {  // stopped before the evaluation of step 6 was recorded, so that it is due
    MetricsWriter writer(directory.path(), example_info(), {.interval = 5, .resume_step = 6});
    writer.record_evaluation("validation", {6, 0.5, {}, 0, {}});
  }
  for (int i = 0; i < 2; ++i) {
    const auto file = open_metrics(directory);
    CHECK(file.read<std::int64_t>("evaluations/validation/step", 9) == std::vector<std::int64_t>{5, 6});
    CHECK(file.read<double>("evaluations/validation/loss", 9) == std::vector<double>{0.7, 0.5});
    CHECK(file.read<std::int64_t>("evaluations/test/step", 9) == std::vector<std::int64_t>{5});
    rebuild_metrics(directory.path());
  }
}

TEST_CASE("a journal without its beginning does not keep a run from resuming") {
  const TemporaryDirectory directory;
  {
    MetricsWriter writer(directory.path(), example_info());
    for (std::int64_t step = 1; step <= 5; ++step) writer.record_step(step_row(step));
  }
  const std::string path = metrics_journal_path(directory.path());
  std::string flipped = bert_hpc::test::file_bytes(path);
  flipped[3] ^= 1;
  std::string kept = directory.path() + "/metrics.before-step-6.h5";
  for (const std::string& damaged : {flipped, std::string()}) {
    bert_hpc::test::write_bytes(path, damaged);
    const std::string older = bert_hpc::test::file_bytes(metrics_path(directory.path()));
    {
      MetricsWriter writer(directory.path(), example_info(), {.interval = 5, .resume_step = 5});
      REQUIRE(writer.warnings().size() == 1);
      CHECK_THAT(writer.warnings()[0], ContainsSubstring("does not begin as") && ContainsSubstring(".damaged'") &&
                                           ContainsSubstring("'" + kept + "': metrics.h5 begins with step 6."));
      writer.record_step(step_row(6));
    }
    CHECK(bert_hpc::test::file_bytes(path + ".damaged") == damaged);
    CHECK(bert_hpc::test::file_bytes(kept) == older);
    kept = directory.path() + "/metrics.before-step-6-2.h5";  // the first one stays
    CHECK(steps_of(directory) == std::vector<std::int64_t>{6});
    CHECK(rebuild_metrics(directory.path()) == 0);
    CHECK(steps_of(directory) == std::vector<std::int64_t>{6});
  }
}

TEST_CASE("a run without its journal leaves the metrics of its past as they are") {
  const TemporaryDirectory directory;
  {
    MetricsWriter writer(directory.path(), example_info());
    for (std::int64_t step = 1; step <= 5; ++step) writer.record_step(step_row(step));
  }
  const std::string older = bert_hpc::test::file_bytes(metrics_path(directory.path()));
  std::filesystem::remove(metrics_journal_path(directory.path()));
  {
    MetricsWriter writer(directory.path(), example_info(), {.interval = 5, .resume_step = 3});
    REQUIRE(writer.warnings().size() == 1);
    CHECK_THAT(writer.warnings()[0], ContainsSubstring("There is no") && ContainsSubstring("begins with step 4."));
    writer.record_step(step_row(4));
  }
  CHECK(bert_hpc::test::file_bytes(directory.path() + "/metrics.before-step-4.h5") == older);
  CHECK(steps_of(directory) == std::vector<std::int64_t>{4});
}

TEST_CASE("a journal with a second name becomes a file of its own, and the other name keeps the old content") {
  const TemporaryDirectory directory;
  {
    MetricsWriter writer(directory.path(), example_info());
    for (std::int64_t step = 1; step <= 5; ++step) writer.record_step(step_row(step));
  }
  const std::string path = metrics_journal_path(directory.path()), backup = directory.path() + "/backup";
  std::filesystem::create_hard_link(path, backup);
  const std::string before = bert_hpc::test::file_bytes(path);
  {
    MetricsWriter writer(directory.path(), example_info(), {.interval = 5, .resume_step = 5});
    CHECK(writer.warnings().empty());
    writer.record_step(step_row(6));
  }
  CHECK(steps_of(directory) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(bert_hpc::test::file_bytes(backup) == before);
  CHECK(bert_hpc::test::file_bytes(path).size() > before.size());
}

TEST_CASE("a journal that cannot be opened is not taken for a damaged one") {
  const TemporaryDirectory directory;
  {
    MetricsWriter writer(directory.path(), example_info());
    writer.record_step(step_row(1));
  }
  const std::string path = metrics_journal_path(directory.path()), elsewhere = directory.path() + "/elsewhere";
  std::filesystem::rename(path, elsewhere);
  std::filesystem::create_symlink(elsewhere, path);
  const auto resumed = [&] { MetricsWriter(directory.path(), example_info(), {.interval = 5, .resume_step = 1}); };
  CHECK_THROWS_WITH(resumed(), ContainsSubstring("metrics.journal'") && ContainsSubstring("it is a symbolic link"));
  std::filesystem::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);  // no process writes to it: reading it would wait for ever
  CHECK_THROWS_WITH(resumed(), ContainsSubstring("it is not a regular file"));
  CHECK(!std::filesystem::exists(path + ".damaged"));
}

TEST_CASE("a journal that differs from the checkpoint's copy is replaced by the copy") {
  const TemporaryDirectory directory;
  const std::string path = metrics_journal_path(directory.path()), history = directory / "history";
  const std::string earlier = directory / "earlier";
  {
    MetricsWriter writer(directory.path(), example_info());
    for (std::int64_t step = 1; step <= 8; ++step) {
      writer.record_step(step_row(step));
      if (step == 4) writer.record_evaluation("validation", {4, 0.7, {{"accuracy", 0.5}}, 0, {}});
      if (step == 4) REQUIRE(writer.copy_journal(writer.journal_bytes(), earlier));
      if (step == 6) REQUIRE(writer.copy_journal(writer.journal_bytes(), history));
    }
  }
  const std::string whole = bert_hpc::test::file_bytes(path), known = bert_hpc::test::file_bytes(history);
  REQUIRE((whole.starts_with(known) && known.starts_with(bert_hpc::test::file_bytes(earlier))));
  std::string flipped = known;
  flipped[known.find("step\t3") + 8] ^= 1;
  const std::string short_one = known.substr(0, known.size() - 2), other = known.substr(0, known.rfind("step\t6") - 9);
  const auto goes_on = [&](std::int64_t step, const std::string& from) {
    MetricsWriter writer(directory.path(), example_info(), {.interval = 5, .resume_step = step, .history = from});
    for (std::int64_t next = step + 1; next <= 7; ++next) writer.record_step(step_row(next));
    return writer.warnings();
  };
  const auto check_rows = [&] {
    CHECK(steps_of(directory) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7});
    CHECK(open_metrics(directory).read<std::int64_t>("evaluations/validation/step", 9) == std::vector<std::int64_t>{4});
    CHECK(open_metrics(directory).read<double>("evaluations/validation/accuracy", 9) == std::vector<double>{0.5});
  };
  for (const std::string& damaged : {flipped, flipped + whole.substr(known.size()), short_one, other, std::string()}) {
    bert_hpc::test::write_bytes(path, damaged);
    const auto warnings = goes_on(6, history);
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], ContainsSubstring("is kept as '" + path + ".damaged'") &&
                                ContainsSubstring("The rows up to step 6 come from the checkpoint."));
    CHECK(bert_hpc::test::file_bytes(path + ".damaged").starts_with(damaged));  // a torn line is closed off
    check_rows();
    CHECK(rebuild_metrics(directory.path()) == 0);
    check_rows();
    // It is the run's own from now on: an earlier checkpoint knows it too.
    CHECK(goes_on(4, earlier).empty());
    check_rows();
  }
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".damaged");
  std::filesystem::remove(metrics_path(directory.path()));
  const auto warnings = goes_on(6, history);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], ContainsSubstring("There is no '" + path) && ContainsSubstring("come from the checkpoint."));
  CHECK_FALSE(std::filesystem::exists(path + ".damaged"));
  check_rows();
  // A journal that has more than the checkpoint is cut back, as ever.
  bert_hpc::test::write_bytes(path, whole);
  CHECK(goes_on(6, history).empty());
  check_rows();
  CHECK(bert_hpc::test::file_bytes(path).starts_with(whole));
}

TEST_CASE("a checkpoint's copy of the journal has the earlier records, while more are added") {
  const TemporaryDirectory directory;
  const std::string path = directory / "journal", copy = directory / "copy";
  Journal journal = Journal::create(path, "a test");
  const std::string line(50000, 'x');
  for (int i = 0; i < 50; ++i) journal.append(line);  // more than a block
  const std::int64_t bytes = journal.bytes();
  const std::string before = bert_hpc::test::file_bytes(path);
  CHECK(static_cast<std::int64_t>(before.size()) == bytes);
  {
    const std::jthread appending([&] {
      for (int i = 0; i < 200; ++i) journal.append("more");
    });
    for (int i = 0; i < 10; ++i) {
      REQUIRE(journal.copy(bytes, copy));
      CHECK(bert_hpc::test::file_bytes(copy) == before);
    }
  }
  CHECK(journal.copy(bytes, copy) == file_checksum(copy, ExitCode::files));
  CHECK(Journal::begins_with(path, copy));
  CHECK_FALSE(Journal::begins_with(copy, path));
  CHECK_FALSE(Journal::begins_with(path, directory / "none"));
  CHECK(Journal::resume(path).bytes() == journal.bytes());
  // Removing the name does no harm; bytes that were cut off cannot be read back.
  std::filesystem::rename(path, directory / "elsewhere");
  CHECK(journal.copy(bytes, copy));
  std::filesystem::resize_file(directory / "elsewhere", 5000);
  journal.append("after");
  CHECK_FALSE(journal.copy(bytes, copy));
  CHECK_FALSE(std::filesystem::exists(copy));
  CHECK_THROWS_AS(journal.copy(bytes, directory / "not/there"), Error);
}

TEST_CASE("a journal takes no more than is planned for it") {
  const double longest = -2.2250738585072014e-308;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t classes = 12, samples = 5000, rows = 300, evaluations = 30, epochs = 40;
  constexpr std::size_t nodes = 70;
  RunInfo info = example_info();
  info.resolved_input = std::string(500, '\n');
  for (const bool extreme : {false, true}) {
    const TemporaryDirectory directory;
    MetricsWriter writer(directory.path(), info);
    for (std::int64_t i = 1; i <= rows; ++i) {
      const double noise = 3000.0 / static_cast<double>(6 + i);
      writer.record_step(extreme ? StepRow{-most, longest, longest, longest, longest, -most, -most, longest, -most}
                                 : StepRow{i * 10, noise, noise, noise * 1e-7, noise, 320, 40960, noise, 0});
      writer.record_efficiency(extreme ? EfficiencyRow{-most, longest, longest, longest}
                                       : EfficiencyRow{i * 10, noise, noise, noise});
    }
    for (std::int64_t i = 1; i <= epochs; ++i) {
      const std::vector<std::int64_t> bytes(nodes, extreme ? -most : 123456789);
      writer.record_data(extreme ? DataRow{-most, longest, -most, bytes} : DataRow{i * 100, 1.5, 1 << 30, bytes});
    }
    for (std::int64_t i = 1; i <= evaluations; ++i) {
      const double value = extreme ? longest : 1.0 / static_cast<double>(6 + i);
      std::vector<std::int64_t> confusion(classes * classes, samples / (classes * classes));
      writer.record_evaluation("validation",
                               {extreme ? -most : i * 100,
                                value,
                                {{"accuracy", value}, {"precision", value}, {"recall", value}, {"f1", value}},
                                classes,
                                confusion,
                                0,
                                std::vector<std::int64_t>(3 * classes, samples / classes)});
    }
    const std::int64_t planned = journal_bytes({.text = 600,
                                                .rows = rows,
                                                .evaluations = evaluations,
                                                .epochs = epochs,
                                                .nodes = nodes,
                                                .loss_scales = false,
                                                .classes = classes,
                                                .samples = samples,
                                                .counted_classes = classes,
                                                .metrics = 4});
    CHECK(writer.journal_bytes() <= planned);
    CHECK(writer.journal_bytes() > planned / 3);
  }
}

TEST_CASE("a journal with counts of thousands of classes takes no more than is planned for it") {
  constexpr std::int64_t classes = 3000, samples = 99999, evaluations = 5;
  for (const std::int64_t count : {std::int64_t{0}, samples}) {  // the shortest and the longest
    const TemporaryDirectory directory;
    MetricsWriter writer(directory.path(), example_info());
    for (std::int64_t step = 1; step <= evaluations; ++step) {
      writer.record_evaluation("validation", {step, 0.5, {}, 0, {}, 0, std::vector<std::int64_t>(3 * classes, count)});
    }
    const std::int64_t planned =
        journal_bytes({.text = 600, .evaluations = evaluations, .samples = samples, .counted_classes = classes});
    CHECK(writer.journal_bytes() <= planned);
    CHECK(writer.journal_bytes() > planned / 4);
  }
}

TEST_CASE("a foreign journal is refused") {
  const TemporaryDirectory directory;
  const std::string path = metrics_journal_path(directory.path());
  CHECK_THROWS_WITH(rebuild_metrics(directory.path()), ContainsSubstring("No such file"));
  bert_hpc::test::write_bytes(path, "");
  CHECK_THROWS_WITH(rebuild_metrics(directory.path()), ContainsSubstring("does not begin as"));
  bert_hpc::test::write_bytes(path, "step,loss\n1,2\n");
  CHECK_THROWS_WITH(rebuild_metrics(directory.path()), ContainsSubstring("does not begin as"));
  // Whole lines with the right checksum but without sense.
  Journal journal = Journal::create(path, "bert_hpc metrics journal 1");
  for (const char* line :
       {"", "step", "step\t1\t2", "step\tx\t0\t0\t0\t0\t0\t0\t0", "unheard\t1", "timers\t99999999999",
        "evaluation\tvalidation\t1\t0\t0\t9000000000", "evaluation\tvalidation\t1\t0\t0\t0\t0\t0\t2\t1\t1", "total\t\\",
        "step\t1\t0\t0\t0\t0\t0\t0\t0\t0\t9\t9\t9"}) {
    journal.append(line);
  }
  CHECK(rebuild_metrics(directory.path()) == 10);
}

// The child records rows, sends each row's number through a pipe after record_step has returned, and makes snapshots
// without a pause. The parent keeps reading metrics.h5 and then kills the child. No row that was sent may be missing.
TEST_CASE("kill -9 at any moment loses no recorded row") {
  const TemporaryDirectory directory;
  for (int round = 0; round < 6; ++round) {
    int sent_steps[2];
    REQUIRE(pipe(sent_steps) == 0);
    const pid_t child = fork();
    if (child == 0) {
      MetricsWriter writer(directory.path(), example_info(), {.interval = 0, .resume_step = -1});
      for (std::int64_t step = 1;; ++step) {
        writer.record_step(step_row(step));
        if (write(sent_steps[1], &step, sizeof step) != sizeof step) _exit(1);
        if (step % 50 == 0) writer.snapshot();
      }
    }
    close(sent_steps[1]);
    std::int64_t last = 0, value = 0;
    const auto read_one = [&] {
      const bool got = read(sent_steps[0], &value, sizeof value) == sizeof value;
      if (got) last = value;
      return got;
    };
    // Wait until it works, then read along for a while that differs from round to round.
    while (last < 120 + 37 * round) REQUIRE(read_one());
    for (int i = 0; i < 5; ++i) {
      for (int rows = 0; rows < 40; ++rows) REQUIRE(read_one());
      CHECK_NOTHROW(steps_of(directory));
    }
    kill(child, SIGKILL);
    while (read_one()) {
    }
    close(sent_steps[0]);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));

    const auto before = static_cast<std::int64_t>(steps_of(directory).size());
    CHECK(before <= last + 1);
    CHECK(rebuild_metrics(directory.path()) <= 1);
    const std::vector<std::int64_t> rows = steps_of(directory);
    CHECK(static_cast<std::int64_t>(rows.size()) >= last);
    for (std::size_t i = 0; i < rows.size(); ++i) REQUIRE(rows[i] == static_cast<std::int64_t>(i) + 1);
  }
}

TEST_CASE("recording does not wait for the disk") {
  const TemporaryDirectory directory;
  MetricsWriter writer(directory.path(), example_info());
  const int before = forced_writes;
  constexpr int rows = 20000;
  for (int step = 1; step <= rows; ++step) writer.record_step(step_row(step));
  CHECK(forced_writes == before);
  writer.close();
  CHECK(forced_writes > before);
  CHECK(steps_of(directory).size() == rows);
}
