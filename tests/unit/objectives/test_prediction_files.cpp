// Files of predictions are written while results come: what is not on the disk yet is a block, however many samples
// there are. Without the last one there are no files.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/objectives/prediction_files.hpp"
#include "bert_hpc/objectives/sample_results.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
namespace fs = std::filesystem;

namespace {

struct Run {
  test::ScratchDirectory directory;
  std::mutex hdf5;
  std::unique_ptr<data::ShardReader> reader;
  objectives::PredictionsFacts facts;

  Run(const std::string& task, std::int64_t samples)
      : facts{.directory = directory.path.string(),
              .task = *tasks::find(task),
              .predict = objectives::named(task).predict,
              .split = "test",
              .label_names = {"a", "b", "c"},
              .require_directory = [] {}} {
    test::write_shard(directory / "a.h5", test::make_content(tasks::find(task), samples, 1, 4));
    data::ShardReaderOptions options;
    options.paths = {directory / "a.h5"};
    options.limits.task = tasks::find(task);
    options.source_index = true;
    reader = std::make_unique<data::ShardReader>(options);
  }

  std::int64_t bytes(const std::string& name) const {
    std::error_code missing;
    const auto size = fs::file_size(directory.path / name, missing);
    return missing ? 0 : static_cast<std::int64_t>(size);
  }
  bool has(const std::string& name) const { return fs::exists(directory.path / name); }
};

/// Three logits that do not compress.
std::vector<float> logits_of(std::int64_t sample) {
  std::vector<float> logits;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::uint64_t bits = core::mix64(static_cast<std::uint64_t>(sample) * 3 + i);
    logits.push_back(static_cast<float>(bits >> 40) / 16777216.0f);
  }
  return logits;
}

}  // namespace

TEST_CASE("rows of predictions are on the disk, all but a block, before the last sample is there") {
  constexpr std::int64_t samples = 200000;
  Run run("classification", samples);
  const auto results = objectives::row_results(*run.reader, 3, run.hdf5);
  const auto collector = results->collect(&run.facts);
  for (std::int64_t s = 0; s + 1 < samples; ++s) collector->add(logits_of(s));
  CHECK_FALSE(run.has("predictions.h5"));
  CHECK_FALSE(run.has("predictions.csv"));
  // A row takes at least 40 bytes of text: its number, two names of a letter, four probabilities of seven digits or
  // more. What is missing: a block of 2^16 logits, and 256 KiB of the file's own buffer.
  constexpr std::int64_t block = 1 << 16;
  CHECK(run.bytes("predictions.csv.partial") > 40 * (samples - block / 3) - (1 << 18));
  // Probabilities: 24 random bits each, of which 20 or more stay. What is missing: a block before the file, one that
  // becomes a chunk, and HDF5's cache of 1 MiB, which is four of them.
  CHECK(run.bytes("predictions.h5.partial") > (3 * samples - 6 * block) * 20 / 8);
  collector->add(logits_of(samples - 1));
  collector->finish(nullptr);
  CHECK_FALSE(run.has("predictions.csv.partial"));
  CHECK_FALSE(run.has("predictions.h5.partial"));
  const auto file = io::Hdf5File::open_read(run.directory / "predictions.h5", core::ExitCode::files);
  CHECK(file.integer_attribute("/", "rows") == samples);
  const auto predicted = file.read<std::int32_t>("prediction", samples);
  const auto sources = file.read<std::int64_t>("source_index", samples);
  const auto labels = file.read<std::int32_t>("label", samples);
  std::int64_t wrong = 0;
  for (std::int64_t s = 0; s < samples; ++s) {
    const std::vector<float> logits = logits_of(s);
    const auto at = static_cast<std::size_t>(s);
    wrong += predicted[at] != std::max_element(logits.begin(), logits.end()) - logits.begin();
    wrong += sources[at] != run.reader->source_index()[at];
    wrong += labels[at] != run.reader->classes()[at];
  }
  CHECK(wrong == 0);
  std::ifstream text(run.directory / "predictions.csv");
  std::int64_t lines = 0;
  for (std::string line; std::getline(text, line);) ++lines;
  CHECK(lines == samples + 1);
}

TEST_CASE("an evaluation that ends early leaves no files of predictions") {
  Run run("regression", 100);
  const auto results = objectives::row_results(*run.reader, 1, run.hdf5);
  {
    const auto collector = results->collect(&run.facts);
    for (int s = 0; s < 50; ++s) collector->add(std::vector<float>{0.5f});
    CHECK(run.has("predictions.h5.partial"));
  }
  for (const auto& entry : fs::directory_iterator(run.directory.path)) CHECK(entry.path().filename() == "a.h5");
}
