#include "bert_hpc/objectives/regression.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

const data::LabelScale scale{.mean = 6.5, .deviation = 0.25};

}  // namespace

TEST_CASE("the log names the loss of a regression") {
  CHECK(objectives::regression_loss_text({.standardize = true}, scale) ==
        "mean squared error of standardized labels (mean 6.5, deviation 0.25)");
  CHECK(objectives::regression_loss_text({}, {}) == "mean squared error of the labels (task.standardize = false)");
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
  CHECK(objectives::unit_difference(scale, scale).empty());
  CHECK(objectives::unit_difference({}, {}).empty());
  CHECK(objectives::unit_difference({}, scale) ==
        "the labels' unit: labels as they are there, mean 6.5, deviation 0.25 here");
  data::LabelScale other = scale;
  other.mean += 1e-15;
  CHECK(objectives::unit_difference(other, scale) ==
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
  CHECK(objectives::head_in_labels_unit(scale, "classifier", "bert.pooler.dense.bias", values, folded).data() ==
        values.data());
  CHECK(objectives::head_in_labels_unit({}, "classifier", "classifier.weight", values, folded).data() == values.data());
  CHECK(objectives::head_in_labels_unit(scale, "classifier", "classifier.weight", values, folded)[0] == 7.0f);
  CHECK(objectives::head_in_labels_unit(scale, "classifier.out_proj", "classifier.out_proj.weight", values,
                                        folded)[0] == 7.0f);
  CHECK(
      objectives::head_in_labels_unit(scale, "classifier.out_proj", "classifier.dense.weight", values, folded).data() ==
      values.data());
  CHECK(objectives::head_in_labels_unit(scale, "classifier", "classifier.bias", values, folded)[0] == 13.5f);
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
  CHECK(objectives::exported_range(range) == std::array<double, 2>{1, 9});
  CHECK(!objectives::exported_range(scale));
  CHECK(range.standardized(1) == 0.0f);
  CHECK(range.standardized(3) == 0.25f);
  CHECK(range.standardized(10) == 1.0f);
  CHECK(range.standardized(-10) == 0.0f);
  std::vector<float> converted, folded;
  const std::vector<float> outputs = {0, -200, 200, std::log(3.0f)}, head = {28};
  const std::span<const float> found = objectives::outputs_in_labels_unit(range, {}, outputs, converted);
  CHECK(std::vector<float>(found.begin(), found.end()) == std::vector<float>{5, 1, 9, 7});
  CHECK(objectives::head_in_labels_unit(range, "classifier", "classifier.weight", head, folded)[0] == 28);
  core::ParameterStore store({{"classifier.bias", {1}, false}}, core::ParameterStore::Arenas::values);
  store.change_value(0).data[0] = 7;
  objectives::head_into_training_unit(range, "classifier", {}, store);
  CHECK(store.value(0).data[0] == 7);
  CHECK(objectives::unit_difference(scale, range) ==
        "the labels' unit: mean 6.5, deviation 0.25 there, the range 1 … 9 here");
  CHECK(objectives::regression_loss_text({}, range) ==
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
