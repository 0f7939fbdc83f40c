// Against plain loops in extended precision.
#include "bert_hpc/data/label_scale.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>
#include <vector>

using bert_hpc::data::all_equal;
using bert_hpc::data::fit_label_scale;
using bert_hpc::data::fold_into_head;
using bert_hpc::data::HeadPart;
using bert_hpc::data::LabelScale;
using bert_hpc::data::unfold_from_head;

namespace {

std::vector<float> labels_around(float centre, float spread, int count) {
  std::mt19937 random(7);
  std::vector<float> labels;
  for (int i = 0; i < count; ++i) labels.push_back(centre + spread * static_cast<float>(random() % 1000) / 1000.0f);
  return labels;
}

/// w · x + b of the head's float values.
double output_of(const std::vector<float>& weight, float bias, const std::vector<float>& x) {
  double sum = bias;
  for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(weight[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace

TEST_CASE("mean and population deviation agree with those of plain loops for labels of any magnitude") {
  // Band scores, years, small and huge numbers.
  const float centres[] = {6.0f, 2014.0f, -3e-6f, 1e30f}, spreads[] = {3.0f, 2.0f, 1e-6f, 5e29f};
  for (int i = 0; i < 4; ++i) {
    const std::vector<float> labels = labels_around(centres[i], spreads[i], 999);
    long double sum = 0, squares = 0;
    for (const float label : labels) sum += label;
    const long double mean = sum / labels.size();
    for (const float label : labels) squares += (label - mean) * (label - mean);
    const long double deviation = std::sqrt(squares / labels.size());
    const LabelScale scale = fit_label_scale(labels);
    // Some hundred roundings of double precision.
    CHECK(std::abs(scale.mean - mean) <= 1e-13L * std::abs(mean));
    CHECK(std::abs(scale.deviation - deviation) <= 1e-12L * deviation);
    long double new_sum = 0, new_squares = 0;
    for (const float label : labels) {
      new_sum += scale.standardized(label);
      new_squares += std::pow(scale.standardized(label), 2.0L);
      const float back = scale.in_labels_unit(scale.standardized(label));
      CHECK(std::abs(back - label) <= 2e-7f * (std::abs(label) + spreads[i]));
    }
    CHECK(std::abs(new_sum / labels.size()) < 1e-7);
    CHECK(std::abs(new_squares / labels.size() - 1) < 1e-6);
  }
}

TEST_CASE("labels that are all equal become 0") {
  const std::vector<float> labels(5, 6.1f);
  CHECK(all_equal(labels));
  const LabelScale scale = fit_label_scale(labels);
  CHECK(scale == LabelScale{.mean = static_cast<double>(6.1f), .deviation = 1});
  CHECK(scale.standardized(6.1f) == 0.0f);
  CHECK(scale.in_labels_unit(0.0f) == 6.1f);
  CHECK_FALSE(all_equal(std::vector<float>{1.0f, 1.0f, 2.0f}));
}

TEST_CASE("without standardization labels and outputs keep their bits") {
  const LabelScale same;
  CHECK(same.is_identity());
  for (const float value : {0.1f, -0.0f, 3e38f, 1e-40f}) {
    CHECK(same.standardized(value) == value);
    CHECK(same.in_labels_unit(value) == value);
    std::vector<float> head = {value};
    fold_into_head({}, HeadPart::bias, 0, 1, head);
    unfold_from_head({}, HeadPart::weight, 0, 1, head);
    CHECK(head[0] == value);
  }
}

TEST_CASE("a folded head predicts in the labels' unit, and unfolding gives the head of training back") {
  const LabelScale scale = fit_label_scale(labels_around(6.0f, 3.0f, 50));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> weight(64), x(64), bias = {0.3f};
  for (float& w : weight) w = 0.02f * normal(random);
  for (float& value : x) value = normal(random);

  std::vector<float> folded_weight = weight, folded_bias = bias;
  fold_into_head({scale}, HeadPart::weight, 0, 64, folded_weight);
  fold_into_head({scale}, HeadPart::bias, 0, 1, folded_bias);
  const double expected = scale.mean + scale.deviation * output_of(weight, bias[0], x);
  CHECK(std::abs(output_of(folded_weight, folded_bias[0], x) - expected) < 1e-6);
  // The other way round the head would predict something else.
  CHECK(std::abs(output_of(weight, bias[0], x) - expected) > 1);

  unfold_from_head({scale}, HeadPart::weight, 0, 64, folded_weight);
  unfold_from_head({scale}, HeadPart::bias, 0, 1, folded_bias);
  for (std::size_t i = 0; i < weight.size(); ++i) {
    CHECK(std::abs(folded_weight[i] - weight[i]) <= 1.2e-7f * std::abs(weight[i]));
  }
  CHECK(std::abs(folded_bias[0] - bias[0]) < 1e-6f);
}

TEST_CASE("each output of a head is folded by the scale of its label column, from any element on") {
  const bert_hpc::data::LabelScales scales = {{.mean = 6.5, .deviation = 2}, {.mean = -1, .deviation = 0.5}};
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6}, bias = {1, 2};  // (2, 3), (2)
  std::vector<float> folded(weight.begin() + 2, weight.end()), folded_bias = bias;
  fold_into_head(scales, HeadPart::weight, 2, 6, folded);
  CHECK(folded == std::vector<float>{6, 2, 2.5f, 3});
  fold_into_head(scales, HeadPart::bias, 0, 2, folded_bias);
  CHECK(folded_bias == std::vector<float>{8.5f, 0});
  unfold_from_head(scales, HeadPart::weight, 2, 6, folded);
  CHECK(folded == std::vector<float>(weight.begin() + 2, weight.end()));
  unfold_from_head(scales, HeadPart::bias, 0, 2, folded_bias);
  CHECK(folded_bias == bias);
}
