// The texts of a checkpoint against those of a start.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "app/checkpoint/checkpoint_differences.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string input = "[run]\nreproducible = true\n\n[batch]\nchunks = 8\n";

app::CheckpointTexts texts() {
  return {{"input", input},
          {"layout", "data = 2, pipeline = 1, tensor = 1, zero = 1"},
          {"dropout", "bits a"},
          {"model", "{}"},
          {"data_train", "vocabulary a\nt.h5 1\n"},
          {"data_validation", "vocabulary a\nv.h5 1\n"},
          {"data_test", "vocabulary a\ntest.h5 1\n"},
          {"best_metric", ""}};
}

/// texts() with some of them set to others.
app::CheckpointTexts texts_with(const std::vector<std::pair<std::string, std::string>>& others) {
  app::CheckpointTexts result = texts();
  for (const auto& [name, text] : others) {
    for (auto& entry : result) {
      if (entry.first == name) entry.second = text;
    }
  }
  return result;
}

app::CheckpointDifferences against(const app::CheckpointTexts& here, const app::CheckpointTexts& there = texts(),
                                   bool reproducible = true) {
  for (const auto& [name, text] : here) {
    if (name == "input") return app::checkpoint_differences(there, here, text, reproducible);
  }
  return {};
}

}  // namespace

TEST_CASE("a checkpoint of the same run has no differences") {
  const app::CheckpointDifferences found = against(texts());
  CHECK(found.incompatibilities.empty());
  CHECK(found.changes.empty());
  CHECK(found.warnings.empty());
}

TEST_CASE("other training data and another model keep a run from resuming") {
  CHECK(against(texts_with({{"data_train", "vocabulary a\nt.h5 2\n"}})).incompatibilities ==
        std::vector<std::string>{"the training data: t.h5 1 there, t.h5 2 here"});
  CHECK(against(texts_with({{"model", "{1}"}})).incompatibilities.size() == 1);
}

TEST_CASE("a run does not resume with random bits of another schema of dropout") {
  CHECK(against(texts_with({{"dropout", "bits b"}})).incompatibilities ==
        std::vector<std::string>{"the random bits of dropout: bits a there, bits b here"});
  app::CheckpointTexts unnamed = texts();
  std::erase_if(unnamed, [](const auto& entry) { return entry.first == "dropout"; });
  CHECK(against(texts(), unnamed).incompatibilities ==
        std::vector<std::string>{"the random bits of dropout: nothing there, bits a here"});
}

TEST_CASE("changed validation and test data give warnings, and are refused where the best model depends on them") {
  const std::string other = "vocabulary a\nv.h5 2\n";
  const app::CheckpointDifferences differences =
      against(texts_with({{"data_validation", other}, {"data_test", other}}));
  CHECK(differences.incompatibilities.empty());
  CHECK(differences.warnings == std::vector<std::string>{"the validation data: v.h5 1 there, v.h5 2 here",
                                                         "the test data: test.h5 1 there, v.h5 2 here"});
  const auto best = [](const char* metric, const std::string& data) {
    return texts_with({{"best_metric", metric}, {"data_validation", data}});
  };
  const std::string same = "vocabulary a\nv.h5 1\n";
  CHECK(against(best("loss", other), best("loss", same)).incompatibilities ==
        std::vector<std::string>{"the validation data, which select the best model: v.h5 1 there, v.h5 2 here"});
  // A model that was best by another metric is not kept.
  CHECK(against(best("loss", other), best("f1", same)).incompatibilities.empty());
  CHECK(against(best("loss", other), best("f1", same)).warnings.size() == 1);
  // A checkpoint that does not state its test data.
  app::CheckpointTexts older = texts();
  std::erase_if(older, [](const auto& entry) { return entry.first == "data_test"; });
  CHECK(against(texts(), older).warnings.empty());
}

TEST_CASE("changes that alter the bits of a reproducible run give warnings") {
  const auto warned = [](const std::string& name, const std::string& text) {
    const app::CheckpointDifferences found = against(texts_with({{name, text}}));
    CHECK(found.incompatibilities.empty());
    return found.warnings.size() == 1 ? found.warnings[0] : std::to_string(found.warnings.size());
  };
  CHECK_THAT(warned("layout", "data = 1, pipeline = 1, tensor = 2, zero = 1"),
             ContainsSubstring("parallel.tensor = 1 there, tensor = 2 here: from here on"));
  CHECK_THAT(warned("input", "[run]\nreproducible = true\n\n[batch]\nchunks = 4\n"),
             ContainsSubstring("batch.chunks: 8 there, 4 here: from here on"));
  CHECK(warned("layout", "data = 1, pipeline = 2, tensor = 1, zero = 0") == "0");
  // Without run.reproducible no guarantee is broken.
  const std::string fast = "[run]\nreproducible = false\n\n[batch]\nchunks = 8\n";
  const auto layout = texts_with({{"input", fast}, {"layout", "data = 1, pipeline = 1, tensor = 2, zero = 1"}});
  CHECK(against(layout, texts_with({{"input", fast}}), false).warnings.empty());
}
