#include "bert_hpc/objectives/regression.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

const data::LabelScales scale = {{.mean = 6.5, .deviation = 0.25}};
const std::vector<std::string> one_output = {"LABEL_0"};

std::string difference(const data::LabelScales& there, const data::LabelScales& here) {
  return objectives::unit_difference(objectives::unit_text(there), objectives::unit_text(here));
}

/// Calls head_in_labels_unit() for the layer "classifier".
std::span<const float> in_labels_unit(const data::LabelScales& scales, const std::string& name, std::int64_t begin,
                                      std::int64_t size, std::span<const float> values, std::vector<float>& folded) {
  return objectives::head_in_labels_unit(scales, "classifier", {name, size, begin, values}, folded);
}

}  // namespace

TEST_CASE("the log names the loss of a regression") {
  CHECK(objectives::regression_loss_text({.standardize = true}, scale, one_output) ==
        "mean squared error of standardized labels (mean 6.5, deviation 0.25)");
  CHECK(objectives::regression_loss_text({}, {}, one_output) ==
        "mean squared error of the labels (task.standardize = false)");
}

TEST_CASE("a regression's settings are the keys of its task") {
  config::Task task;
  task.name = "regression";
  task.lists["levels"].word = "labels";
  task.switches["standardize"] = true;
  task.words["loss"] = "concordance";
  const objectives::RegressionSettings settings = objectives::regression_settings(task);
  CHECK(settings.levels.word == "labels");
  CHECK((settings.standardize && settings.concordance && !settings.range.has_value()));
}

TEST_CASE("a run and its checkpoint must have one unit of labels, to the last bit") {
  CHECK(difference(scale, scale).empty());
  CHECK(difference({}, {}).empty());
  CHECK(difference({}, scale) == "the labels' unit: labels as they are there, mean 6.5, deviation 0.25 here");
  data::LabelScales other = scale;
  other.front().mean += 1e-15;
  CHECK(difference(other, scale) ==
        "the labels' unit: mean 6.5000000000000009, deviation 0.25 there, mean 6.5, deviation 0.25 here");
}

TEST_CASE("the head alone is converted, and not where it was initialized here") {
  core::ParameterStore store(
      {{"bert.pooler.dense.bias", {2}, false}, {"classifier.weight", {1, 2}}, {"classifier.bias", {1}, false}},
      core::ParameterStore::Arenas::values);
  const auto fill = [&] {
    for (int slice = 0; slice < 3; ++slice) {
      core::Tensor<float> values = store.change_value(slice);
      for (std::int64_t i = 0; i < values.size(); ++i) values.data[i] = 7.0f;
    }
  };
  const auto first = [&](int slice) { return store.value(slice).data[0]; };
  fill();
  objectives::head_into_training_unit(scale, "classifier", {}, store);
  CHECK(first(0) == 7.0f);
  CHECK(first(1) == 28.0f);
  CHECK(store.value(1).data[1] == 28.0f);
  CHECK(first(2) == 2.0f);
  fill();
  objectives::head_into_training_unit(scale, "classifier", {"classifier.weight", "classifier.bias"}, store);
  CHECK(first(1) == 7.0f);
  CHECK(first(2) == 7.0f);

  std::vector<float> folded;
  const std::vector<float> values = {28.0f};
  CHECK(in_labels_unit(scale, "bert.pooler.dense.bias", 0, 1, values, folded).data() == values.data());
  CHECK(in_labels_unit({}, "classifier.weight", 0, 1, values, folded).data() == values.data());
  CHECK(in_labels_unit(scale, "classifier.weight", 0, 1, values, folded)[0] == 7.0f);
  CHECK(in_labels_unit(scale, "classifier.bias", 0, 1, values, folded)[0] == 13.5f);
  const auto of_other = [&](const std::string& name) {
    return objectives::head_in_labels_unit(scale, "classifier.out_proj", {name, 1, 0, values}, folded);
  };
  CHECK(of_other("classifier.out_proj.weight")[0] == 7.0f);
  CHECK(of_other("classifier.dense.weight").data() == values.data());
}

TEST_CASE("predictions are clipped to two numbers or to the training labels' range") {
  const std::vector<float> labels = {4.5f, 9.0f, 4.0f, 6.0f};
  objectives::RegressionSettings task;
  CHECK(objectives::prediction_range(task, labels).is_unlimited());
  CHECK(objectives::prediction_range_text(task, {}).empty());
  task.clip_predictions.numbers = {-1, 0.5};
  const objectives::PredictionRange given = objectives::prediction_range(task, labels);
  CHECK(given.low == -1.0f);
  CHECK(given.high == 0.5f);
  CHECK(objectives::prediction_range_text(task, given) == "clipped to -1 … 0.5");
  task.clip_predictions = {.word = "labels", .numbers = {}};
  const objectives::PredictionRange found = objectives::prediction_range(task, labels);
  CHECK(found.low == 4.0f);
  CHECK(found.high == 9.0f);
  CHECK(objectives::prediction_range_text(task, found) == "clipped to 4 … 9, the range of the training labels");
  CHECK(objectives::prediction_range(task, {}).is_unlimited());  // planned data
}

TEST_CASE("outputs are converted to the labels' unit, then clipped") {
  const std::vector<float> outputs = {-4.0f, 0.0f, 10.0f, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> converted;
  const auto first_three = [](std::span<const float> all) { return std::vector<float>(all.begin(), all.begin() + 3); };
  CHECK(objectives::outputs_in_labels_unit({}, {}, outputs, converted).data() == outputs.data());
  CHECK(first_three(objectives::outputs_in_labels_unit(scale, {}, outputs, converted)) ==
        std::vector{5.5f, 6.5f, 9.0f});
  const auto clipped = objectives::outputs_in_labels_unit(scale, {6.0f, 8.0f}, outputs, converted);
  CHECK(first_three(clipped) == std::vector{6.0f, 6.5f, 8.0f});
  CHECK(std::isnan(clipped[3]));
  CHECK(first_three(objectives::outputs_in_labels_unit({}, {-1.0f, 1.0f}, outputs, converted)) ==
        std::vector{-1.0f, 0.0f, 1.0f});
}

TEST_CASE("a range bounds predictions, and its head is exported as it is") {
  const data::LabelScale range = data::LabelScale::of_range(1, 9);
  CHECK(objectives::exported_range({range}) == std::array<double, 2>{1, 9});
  CHECK(!objectives::exported_range(scale));
  CHECK(range.standardized(1) == 0.0f);
  CHECK(range.standardized(3) == 0.25f);
  CHECK(range.standardized(10) == 1.0f);
  CHECK(range.standardized(-10) == 0.0f);
  std::vector<float> converted, folded;
  const std::vector<float> outputs = {0, -200, 200, std::log(3.0f)}, head = {28};
  const std::span<const float> found = objectives::outputs_in_labels_unit({range}, {}, outputs, converted);
  CHECK(std::vector<float>(found.begin(), found.end()) == std::vector<float>{5, 1, 9, 7});
  CHECK(in_labels_unit({range}, "classifier.weight", 0, 1, head, folded)[0] == 28);
  core::ParameterStore store({{"classifier.bias", {1}, false}}, core::ParameterStore::Arenas::values);
  store.change_value(0).data[0] = 7;
  objectives::head_into_training_unit({range}, "classifier", {}, store);
  CHECK(store.value(0).data[0] == 7);
  CHECK(difference(scale, {range}) == "the labels' unit: mean 6.5, deviation 0.25 there, the range 1 … 9 here");
  CHECK(objectives::regression_loss_text({}, {range}, one_output) ==
        "squared error of predictions within 1 … 9, both scaled to 0 … 1 (task.range)");
}

TEST_CASE("an evaluation takes the range of config.json or of the input, which must agree") {
  objectives::RegressionSettings task;
  CHECK(objectives::evaluation_label_scale(task, {}).is_identity());
  task.range.numbers = {1, 9};
  CHECK(objectives::evaluation_label_scale(task, {}) == data::LabelScale::of_range(1, 9));
  CHECK(objectives::evaluation_label_scale(task, std::array<double, 2>{1, 9}) == data::LabelScale::of_range(1, 9));
  CHECK_THROWS_WITH(objectives::evaluation_label_scale(task, std::array<double, 2>{1, 8}),
                    ContainsSubstring("[task] range is 1 … 9, but the model was trained with 1 … 8"));
  CHECK(objectives::evaluation_label_scale({}, std::array<double, 2>{1, 8}) == data::LabelScale::of_range(1, 8));
}

TEST_CASE("levels are listed, or the values of the training labels") {
  const std::vector<float> labels = {2, 1.5f, 2, 4};
  objectives::RegressionSettings task;
  CHECK(objectives::value_levels(task, labels).empty());
  task.levels.word = "labels";
  CHECK(objectives::value_levels(task, labels) == std::vector<float>{1.5f, 2, 4});
  CHECK(objectives::value_levels(task, {}).empty());
  CHECK(objectives::levels_text(objectives::value_levels(task, labels)) == "levels 1.5, 2, 4");
  std::vector<float> many;
  for (int i = 0; i < 1001; ++i) many.push_back(static_cast<float>(i));
  CHECK_THROWS_WITH(objectives::value_levels(task, many),
                    ContainsSubstring("but the training labels have 1,001 values"));
  task.levels = {.word = "", .numbers = {1, 2}};
  CHECK(objectives::value_levels(task, labels) == std::vector<float>{1, 2});
}

namespace {

constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
const std::vector<std::string> columns = {"grammar", "overall"};

}  // namespace

TEST_CASE("each of several label columns has the scale of its known labels") {
  const std::vector<float> labels = {6, 1, unknown, 3, 7, unknown};
  const data::LabelScales scales = objectives::training_label_scales({.standardize = true}, labels, columns);
  CHECK(scales == data::LabelScales{{.mean = 6.5, .deviation = 0.5}, {.mean = 2, .deviation = 1}});
  CHECK(objectives::training_label_scales({}, labels, columns).empty());
  CHECK(objectives::training_label_scales({.standardize = true}, {}, columns).empty());
  CHECK_THROWS_WITH(objectives::training_label_scales({}, std::vector<float>{6, unknown}, columns),
                    ContainsSubstring("no row of the training data has a number in the label column \"overall\""));
  CHECK(objectives::regression_loss_text({.standardize = true}, scales, columns) ==
        "mean squared error of the known labels of 2 columns, each standardized: grammar mean 6.5, deviation 0.5; "
        "overall mean 2, deviation 1");
  CHECK(objectives::regression_loss_text({}, {}, columns) ==
        "mean squared error of the known labels of 2 columns (task.standardize = false)");
  std::vector<float> converted;
  const std::span<const float> outputs =
      objectives::outputs_in_labels_unit(scales, {}, std::vector<float>{0, 0, 2, -1}, converted);
  CHECK(std::vector<float>(outputs.begin(), outputs.end()) == std::vector<float>{6.5f, 2, 7.5f, 1});
  data::LabelScales others = scales;
  others.back().mean = 3;
  CHECK(difference(scales, others) ==
        "the labels' unit: mean 6.5, deviation 0.5; mean 2, deviation 1 there, mean 6.5, deviation 0.5; mean 3, "
        "deviation 1 here");
}

TEST_CASE("settings for one label column are refused together for several") {
  objectives::RegressionSettings settings{.standardize = true};
  objectives::require_fit_of_columns(settings, columns);
  settings.clip_predictions.numbers = {0, 9};
  objectives::require_fit_of_columns(settings, columns);
  settings.clip_predictions = {.word = "labels", .numbers = {}};
  settings.levels.word = "labels";
  settings.range.numbers = {0, 9};
  settings.concordance = true;
  CHECK_THROWS_WITH(objectives::require_fit_of_columns(settings, columns),
                    ContainsSubstring("the data have 2 label columns (grammar and overall)") &&
                        ContainsSubstring("[task] range") && ContainsSubstring("[task] levels") &&
                        ContainsSubstring("[task] clip_predictions") &&
                        ContainsSubstring("[task] loss = \"concordance\""));
}
