// Gated linear units and their gradients against double precision.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "bert_hpc/ops/gated.hpp"
#include "support/sample_tensors.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using core::DataType;

namespace {

double gelu(double x) {
  return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
}
double gelu_slope(double x) {
  return 0.5 * (1.0 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::acos(-1.0));
}

double silu(double x) {
  return x / (1.0 + std::exp(-x));
}
double silu_slope(double x) {
  const double share = 1.0 / (1.0 + std::exp(-x));
  return share * (1.0 + x * (1.0 - share));
}

}  // namespace

TEST_CASE("a gate multiplies the activation of one half of the columns by the other half") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const bool is_gelu = GENERATE(true, false);
  const auto of = is_gelu ? ops::Activation::gelu : ops::Activation::silu;
  const std::int64_t rows = GENERATE(0, 1, 33), columns = GENERATE(1, 7, 64, 129);
  const test::StoredMatrix pre = test::StoredMatrix::random(type, rows, 2 * columns, 1, 2.0f, 3);
  const test::StoredMatrix d_y = test::StoredMatrix::random(type, rows, columns, 2, 1.0f, 5);
  test::StoredMatrix y(type, rows, columns, 1), d_pre(type, rows, 2 * columns, 3);
  ops::gated_forward(of, pre, y);
  ops::gated_backward(of, pre, d_y, d_pre);
  // Activations have a relative error of 2⁻¹¹ in 16 bits (ops/vector_math.hpp) and 2e-6 near zero in fp32; results are
  // rounded once.
  const double unit = core::unit_roundoff(type), activation = type == DataType::fp32 ? 2e-6 : 0x1p-10;
  std::int64_t wrong = 0;
  const auto look_at = [&](double ours, double exact, double size) {
    wrong += std::abs(ours - exact) <= (unit + activation) * std::abs(exact) + 1e-6 * size + 0x1p-24 ? 0 : 1;
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const double a = pre(i, j), b = pre(i, columns + j), d = d_y(i, j);
      const double value = is_gelu ? gelu(a) : silu(a), slope = is_gelu ? gelu_slope(a) : silu_slope(a);
      look_at(y(i, j), value * b, std::abs(a * b));
      look_at(d_pre(i, j), d * b * slope, std::abs(d * b));
      look_at(d_pre(i, columns + j), d * value, std::abs(d * a));
    }
  }
  CHECK(wrong == 0);
  CHECK(y.padding_untouched());
  CHECK(d_pre.padding_untouched());

  test::StoredMatrix in_place = pre;
  ops::gated_backward(of, in_place, d_y, in_place);
  CHECK(in_place.same_bits(d_pre));
}
