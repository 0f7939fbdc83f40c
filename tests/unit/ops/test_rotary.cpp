// Rotary position embeddings against double precision, and the accuracy of their sines and cosines.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "bert_hpc/ops/rotary.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "support/sample_tensors.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using core::DataType;

TEST_CASE("sines and cosines keep the stated accuracy") {
  double worst = 0;
  const auto look_at = [&](float angle) {
    float sine, cosine;
    ops::sine_cosine(angle, sine, cosine);
    worst = std::max({worst, std::abs(sine - std::sin(double{angle})), std::abs(cosine - std::cos(double{angle}))});
  };
  for (int i = -20000; i <= 20000; ++i) look_at(static_cast<float>(i) * 1e-3f);
  for (float angle = 20.0f; angle < 1048576.0f; angle *= 1.0001f) {
    look_at(angle);
    look_at(-angle);
  }
  CHECK(worst < 1.2e-7);
  float sine, cosine;
  ops::sine_cosine(0.0f, sine, cosine);
  CHECK((sine == 0.0f && cosine == 1.0f));
}

TEST_CASE("frequencies of rotary embeddings fall from 1 with the powers of theta") {
  const auto of = ops::RotaryFrequencies::of(10000.0, 64);
  CHECK(of.pairs == 32);
  CHECK(of.values[0] == 1.0f);
  CHECK(std::abs(of.values[16] - 0.01) < 0.01 * 0x1p-22);
  CHECK(std::abs(of.values[31] - std::pow(10000.0, -62.0 / 64.0)) < of.values[31] * 0x1p-22);
}

TEST_CASE("rotary embeddings rotate pairs of columns of every head by angles of the position") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const std::int64_t head_dim = GENERATE(2, 16, 64, 256), heads = 3;
  const auto frequencies = ops::RotaryFrequencies::of(160000.0, head_dim);
  const std::vector<std::vector<int>> positions{{0, 1, 2, 3}, {}, {5, 700, 8191}};
  const int position_of[] = {0, 1, 2, 3, 5, 700, 8191};
  const test::Rows rows(positions);
  test::StoredMatrix x = test::StoredMatrix::random(type, 7, heads * head_dim, 1, 1.0f, 8);
  const std::vector<float> before = x.floats();
  ops::rotate(frequencies, ops::Rotation::forward, rows.view(), x);
  // Sines have an error of 1.2e-7, two products below 5 and their sum three roundings of 2⁻²⁴: 3e-6; then the result is
  // rounded to its type.
  const double unit = core::unit_roundoff(type);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < 7; ++i) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t c = 0; c < head_dim / 2; ++c) {
        const float angle = static_cast<float>(position_of[i]) * frequencies.values[c];
        const std::int64_t first = h * head_dim + c, second = first + head_dim / 2;
        const double a = before[static_cast<std::size_t>(i * heads * head_dim + first)];
        const double b = before[static_cast<std::size_t>(i * heads * head_dim + second)];
        const double rotated[] = {a * std::cos(double{angle}) - b * std::sin(double{angle}),
                                  b * std::cos(double{angle}) + a * std::sin(double{angle})};
        for (int k = 0; k < 2; ++k) {
          const double error = std::abs(x(i, k == 0 ? first : second) - rotated[k]);
          wrong += error <= 3e-6 + unit * std::abs(rotated[k]) ? 0 : 1;
        }
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(x.padding_untouched());

  ops::rotate(frequencies, ops::Rotation::gradient, rows.view(), x);
  double difference = 0;
  for (std::int64_t i = 0; i < 7; ++i) {
    for (std::int64_t j = 0; j < heads * head_dim; ++j) {
      difference =
          std::max(difference, std::abs(double{x(i, j)} - before[static_cast<std::size_t>(i * heads * head_dim + j)]));
    }
  }
  CHECK(difference <= 6e-6 + 20 * unit);  // elements below 5, rounded twice
}
