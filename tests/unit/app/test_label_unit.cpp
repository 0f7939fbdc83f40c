#include "bert_hpc/app/engine/label_unit.hpp"

#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace bert_hpc;

namespace {

const data::LabelScale scale{.mean = 6.5, .deviation = 0.25};

}  // namespace

TEST_CASE("the log names the loss of a regression, and of a regression alone") {
  config::Config input;
  input.task.name = "classification";
  CHECK(app::regression_loss_text(input, {}).empty());
  input.task.name = "regression";
  input.task.switches["standardize"] = true;
  CHECK(app::regression_loss_text(input, scale) ==
        "mean squared error of standardized labels (mean 6.5, deviation 0.25)");
  input.task.switches["standardize"] = false;
  CHECK(app::regression_loss_text(input, {}) == "mean squared error of the labels (task.standardize = false)");
}

TEST_CASE("a run and its checkpoint must have one unit of labels, to the last bit") {
  CHECK(app::unit_difference(scale, scale).empty());
  CHECK(app::unit_difference({}, {}).empty());
  CHECK(app::unit_difference({}, scale) == "the labels' unit: labels as they are there, mean 6.5, deviation 0.25 here");
  data::LabelScale other = scale;
  other.mean += 1e-15;
  CHECK(app::unit_difference(other, scale) ==
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
  app::head_into_training_unit(scale, {}, store);
  CHECK(first(0) == 7.0f);
  CHECK(first(1) == 28.0f);
  CHECK(store.value(1).data[1] == 28.0f);
  CHECK(first(2) == 2.0f);
  fill();
  app::head_into_training_unit(scale, {"classifier.weight", "classifier.bias"}, store);
  CHECK(first(1) == 7.0f);
  CHECK(first(2) == 7.0f);

  std::vector<float> folded;
  const std::vector<float> values = {28.0f};
  CHECK(app::head_in_labels_unit(scale, "bert.pooler.dense.bias", values, folded).data() == values.data());
  CHECK(app::head_in_labels_unit({}, "classifier.weight", values, folded).data() == values.data());
  CHECK(app::head_in_labels_unit(scale, "classifier.weight", values, folded)[0] == 7.0f);
  CHECK(app::head_in_labels_unit(scale, "classifier.bias", values, folded)[0] == 13.5f);
}
