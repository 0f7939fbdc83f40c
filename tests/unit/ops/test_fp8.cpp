// FP8: rounding against the nearest of all 8-bit numbers, found by looking at each; scales against the definition of
// delayed scaling; products against inner products in double of what they read.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/fp8_product.hpp"
#include "bert_hpc/ops/fp8_rounding.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using core::Float8;
using ops::Fp8Operand;
using ops::Write;
using test::DataType;
using test::Matrix;
using test::StoredMatrix;

namespace {

/// The non-negative numbers of a format, ascending: patterns are in the order of what they stand for.
std::vector<double> numbers_of(Float8 format) {
  const int fraction_bits = format == Float8::e4m3 ? 3 : 2, bias = format == Float8::e4m3 ? 7 : 15;
  std::vector<double> numbers;
  for (int pattern = 0; pattern < 0x80; ++pattern) {
    const int exponent = pattern >> fraction_bits, fraction = pattern & ((1 << fraction_bits) - 1);
    const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    const double value = std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
    if (value <= static_cast<double>(core::largest_of(format))) numbers.push_back(value);
  }
  return numbers;
}

double nearest(double x, Float8 format) {
  static const std::vector<double> all[] = {numbers_of(Float8::e4m3), numbers_of(Float8::e5m2)};
  const std::vector<double>& numbers = all[format == Float8::e4m3 ? 0 : 1];
  std::size_t best = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    const double d = std::abs(numbers[i] - std::abs(x)), least = std::abs(numbers[best] - std::abs(x));
    if (d < least || (d == least && i % 2 == 0)) best = i;  // a tie: the even pattern
  }
  return std::copysign(numbers[best], x);
}

/// A scale in kernel memory.
struct OneScale {
  explicit OneScale(Float8 f, float scale) : format(f), numbers{scale, 1.0f / scale, 0.0f} {}
  ops::Fp8Scale view() {
    return {format, numbers.data(), numbers.data() + 1, reinterpret_cast<std::uint32_t*>(numbers.data() + 2)};
  }
  Float8 format;
  test::Vector<float> numbers;
};

void note(const ops::Fp8Scales& scales, std::size_t layer, Fp8Operand operand, float magnitude) {
  StoredMatrix x(DataType::fp32, 1, 2);
  x.set(0, 0, -magnitude);
  x.set(0, 1, 0.0f);
  ops::note_magnitude(x, scales.of(layer, operand));
}

float scale_of(const ops::Fp8Scales& scales, std::size_t layer, Fp8Operand operand) {
  const ops::Fp8Scale s = scales.of(layer, operand);
  const float scale = test::copy_of(s.scale, 1)[0];
  CHECK(test::copy_of(s.inverse, 1)[0] == 1.0f / scale);
  return scale;
}

}  // namespace

TEST_CASE("rounding through FP8 gives the nearest number of the scale, and the largest magnitude") {
  const DataType type = GENERATE(DataType::bf16, DataType::fp32);
  const Float8 format = GENERATE(Float8::e4m3, Float8::e5m2);
  const std::int64_t rows = GENERATE(1, 7, 70), columns = GENERATE(1, 16, 37, 264);
  const bool notes = GENERATE(true, false);
  const StoredMatrix x = StoredMatrix::random(type, rows, columns, 3, 5.0f, 2);
  double largest = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) largest = std::max(largest, std::abs(static_cast<double>(x(i, j))));
  }
  // Half of the largest would fit: some saturate; and another scale, under which many are subnormal or zero.
  const float fits = core::float8_scale(static_cast<float>(largest), format);
  for (const float scale : {4.0f * fits, fits, fits * 0x1p-12f}) {
    CAPTURE(core::name_of(type), core::largest_of(format), rows, columns, scale);
    OneScale given(format, scale);
    StoredMatrix y(type, rows, columns, 3);
    ops::round_through_fp8(x, given.view(), notes, y);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) wrong += y(i, j) != nearest(x(i, j) * scale, format) / scale;
    }
    CHECK(wrong == 0);
    CHECK(y.padding_untouched());
    CHECK(given.numbers[2] == (notes ? static_cast<float>(largest) : 0.0f));
    // What is larger already stays; the note of what is not a number is infinity.
    given.numbers[2] = 1e30f;
    ops::note_magnitude(x, given.view());
    CHECK(given.numbers[2] == 1e30f);
    StoredMatrix bad(x);
    bad.set(rows - 1, columns - 1, std::numeric_limits<float>::quiet_NaN());
    ops::note_magnitude(bad, given.view());
    CHECK(std::isinf(given.numbers[2]));
  }
}

TEST_CASE("a scale looks back on the largest magnitude of the last 16 steps") {
  ops::Fp8Scales scales({"first", "second"}, true);
  CHECK(!scales.known());
  CHECK(scales.text().empty());
  std::deque<float> last;
  for (int step = 0; step < 40; ++step) {
    // A peak that leaves after 16 steps, on a slow way down.
    const float x = step == 3 ? 1000.0f : 100.0f / static_cast<float>(1 + step), d_y = x * 1e-6f;
    last.push_back(x);
    if (last.size() > 16) last.pop_front();
    note(scales, 1, Fp8Operand::x, x);
    note(scales, 1, Fp8Operand::x, 0.5f * x);  // a smaller one of another micro-batch
    note(scales, 1, Fp8Operand::d_y, d_y);
    scales.end_step();
    const float largest = *std::max_element(last.begin(), last.end());
    CAPTURE(step);
    CHECK(scales.known());
    CHECK(scale_of(scales, 1, Fp8Operand::x) == core::float8_scale(largest, Float8::e4m3));
    CHECK(scale_of(scales, 1, Fp8Operand::d_y) == core::float8_scale(largest * 1e-6f, Float8::e5m2));
    CHECK(scale_of(scales, 0, Fp8Operand::x) == 1.0f);  // of which nothing was seen but zeros
    for (const float noted : test::copy_of(scales.step_magnitudes())) CHECK(noted == 0.0f);
  }
}

TEST_CASE("what is not finite, and what a skipped step saw, does not get into histories") {
  ops::Fp8Scales scales({"layer"}, true);
  note(scales, 0, Fp8Operand::x, 3.0f);
  scales.end_step();
  note(scales, 0, Fp8Operand::x, std::numeric_limits<float>::quiet_NaN());
  scales.end_step();
  const float before = core::float8_scale(3.0f, Float8::e4m3);
  CHECK(scale_of(scales, 0, Fp8Operand::x) == before);
  note(scales, 0, Fp8Operand::x, 1e20f);
  scales.forget_step();
  const std::string known = scales.text();
  scales.end_step();
  CHECK(scale_of(scales, 0, Fp8Operand::x) == before);
  CHECK(scales.text() != known);  // a step more
  // What was not finite has counted as the largest before, for as long as any other step.
  for (int step = 0; step < 16; ++step) {
    CHECK(scale_of(scales, 0, Fp8Operand::x) == (step < 15 ? before : core::float8_scale(0.5f, Float8::e4m3)));
    note(scales, 0, Fp8Operand::x, 0.5f);
    scales.end_step();
  }
}

TEST_CASE("weights are scaled by their own magnitude") {
  ops::Fp8Scales scales({"a", "b", "c"}, true);
  note(scales, 1, Fp8Operand::weight, 0.02f);
  note(scales, 2, Fp8Operand::weight, std::numeric_limits<float>::infinity());
  scales.scale_weights();
  CHECK(scale_of(scales, 0, Fp8Operand::weight) == 1.0f);
  CHECK(scale_of(scales, 1, Fp8Operand::weight) == core::float8_scale(0.02f, Float8::e4m3));
  CHECK(scale_of(scales, 2, Fp8Operand::weight) == 1.0f);
  for (const float noted : test::copy_of(scales.weight_magnitudes())) CHECK(noted == 0.0f);
}

TEST_CASE("histories go into a text and come back, whatever else is in it") {
  const int steps = GENERATE(1, 5, 16, 21);
  ops::Fp8Scales scales({"a.weight", "b.weight"}, true);
  const auto step = [](ops::Fp8Scales& of, int number, std::size_t first) {
    for (std::size_t layer = first; layer < 2; ++layer) {
      const float x = 1.0f + static_cast<float>((number * 7 + 3 * static_cast<int>(layer)) % 13);
      note(of, layer - first, Fp8Operand::x, x * x);
      note(of, layer - first, Fp8Operand::d_y, 1e-7f * x);
    }
    of.end_step();
  };
  for (int i = 0; i < steps; ++i) step(scales, i, 0);
  ops::Fp8Scales other({"b.weight"}, true);  // another stage of a pipeline
  other.restore("c.weight x 3f800000\n" + scales.text());
  for (int i = steps; i < steps + 20; ++i) {
    for (const Fp8Operand operand : {Fp8Operand::x, Fp8Operand::d_y}) {
      CHECK(scale_of(other, 0, operand) == scale_of(scales, 1, operand));
    }
    step(scales, i, 0);
    step(other, i, 1);
  }
  CHECK(scales.text().find(other.text()) != std::string::npos);

  for (const char* damaged : {"", "b.weight", "b.weight x 3f800000\n", "b.weight x 3f800000\nb.weight d_y 7f800000\n",
                              "b.weight x 3f800000\nb.weight d_y 0 0\n", "b.weight x 3f800000\nb.weight d_y zero\n",
                              "b.weight x 3f800000\nb.weight d_y 0 zero\n", "b.weight x 3f800000\nb.weight d_y\n"}) {
    CAPTURE(damaged);
    CHECK_THROWS_AS(other.restore(damaged), core::Error);
  }
}

namespace {

using Element = std::function<double(std::int64_t)>;

/// One layer with weights (out, in), a step of history behind it.
struct Layer {
  Layer(std::int64_t row_count, std::int64_t in, std::int64_t out)
      : rows(row_count),
        x(StoredMatrix::random(DataType::bf16, rows, in, 1, 3.0f, 4)),
        d_y(StoredMatrix::random(DataType::bf16, rows, out, 2, 1e-4f, 2)),
        w(Matrix::random(out, in, 3, 0.05f)),
        bias(Matrix::random(1, out, 4)),
        inner(ops::make_matrix_product("", DataType::bf16)),
        product(ops::make_fp8_product(*inner, {{.id = 7, .name = "layer", .weight = w.tensor}}, true, true)) {
    inner->reserve({rows, std::max(in, out), std::max(in, out)});
    product->reserve({rows, in, out});
  }
  void know() {
    note(product->scales(), 0, Fp8Operand::x, 3.0f);  // what is larger saturates
    note(product->scales(), 0, Fp8Operand::d_y, 1e-4f);
    product->scales().end_step();
    product->note_weights();
    product->round_weights();
  }
  double read_x(std::int64_t i, std::int64_t k) const { return read(x(i, k), core::float8_scale(3.0f, Float8::e4m3)); }
  double read_d_y(std::int64_t i, std::int64_t k) const {
    const double scale = core::float8_scale(1e-4f, Float8::e5m2);
    return nearest(d_y(i, k) * scale, Float8::e5m2) / scale;
  }
  double read_w(std::int64_t i, std::int64_t k) const {
    float largest = 0;
    for (std::int64_t r = 0; r < w.tensor.rows; ++r) {
      for (std::int64_t c = 0; c < w.tensor.columns; ++c) largest = std::max(largest, std::abs(w(r, c)));
    }
    return read(w(i, k), core::float8_scale(largest, Float8::e4m3));
  }
  static double read(double value, double scale) { return nearest(value * scale, Float8::e4m3) / scale; }

  std::int64_t rows;
  StoredMatrix x, d_y;
  Matrix w, bias;
  std::unique_ptr<ops::MatrixProduct> inner;
  std::unique_ptr<ops::Fp8Product> product;
};

/// Sums of `length` terms in float: each addition errs by 2⁻²⁴ of the sum so far, which is no more than Σ|a·b|; and the
/// result is rounded to its type.
bool agrees(double result, std::int64_t length, const Element& a, const Element& b, double begin, double unit) {
  double value = begin, magnitude = std::abs(begin);
  for (std::int64_t k = 0; k < length; ++k) {
    value += a(k) * b(k);
    magnitude += std::abs(a(k) * b(k));
  }
  const double sums = static_cast<double>(length + 1) * 0x1p-24 * magnitude;
  return std::abs(result - value) <= sums + unit * (std::abs(value) + sums);
}

double gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}

constexpr double bf16_unit = 0x1p-8;

}  // namespace

TEST_CASE("FP8 products are those of the rounded numbers") {
  const std::int64_t rows = GENERATE(0, 1, 33), in = GENERATE(16, 80), out = GENERATE(32, 112);
  CAPTURE(rows, in, out);
  Layer layer(rows, in, out);
  layer.know();
  ops::MatrixProduct& product = layer.product->of(7);
  std::int64_t wrong = 0;
  StoredMatrix y(DataType::bf16, rows, out, 1), pre(DataType::bf16, rows, out);
  const auto x_row = [&](std::int64_t i) { return [&, i](std::int64_t k) { return layer.read_x(i, k); }; };
  const auto w_row = [&](std::int64_t j) { return [&, j](std::int64_t k) { return layer.read_w(j, k); }; };
  product.forward(layer.x, layer.w.tensor, layer.bias.tensor.data, y);
  for (std::int64_t i = 0; i < rows; ++i) {
    // On GPUs the bias is added to what has been rounded already.
    const double unit = bf16_unit * (core::kernel_stream() == nullptr ? 1 : 2);
    for (std::int64_t j = 0; j < out; ++j) wrong += !agrees(y(i, j), in, x_row(i), w_row(j), layer.bias(0, j), unit);
  }
  CHECK(wrong == 0);
  CHECK(y.padding_untouched());
  product.forward_gelu(layer.x, layer.w.tensor, layer.bias.tensor.data, pre, y);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < out; ++j) {
      // The approximation of erf, and the rounding of the result.
      wrong += std::abs(y(i, j) - gelu(pre(i, j))) > 2 * bf16_unit * std::abs(gelu(pre(i, j))) + 1e-5;
    }
  }
  CHECK(wrong == 0);

  const auto d_row = [&](std::int64_t i) { return [&, i](std::int64_t k) { return layer.read_d_y(i, k); }; };
  const auto w_column = [&](std::int64_t j) { return [&, j](std::int64_t k) { return layer.read_w(k, j); }; };
  StoredMatrix d_x(DataType::bf16, rows, in);
  product.backward_input(layer.d_y, layer.w.tensor, d_x, Write::replace);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < in; ++j) wrong += !agrees(d_x(i, j), out, d_row(i), w_column(j), 0, bf16_unit);
  }
  CHECK(wrong == 0);

  Matrix d_w = Matrix::random(out, in, 5, 1e-3f), d_bias = Matrix::random(1, out, 6, 1e-3f);
  const Matrix w_before = d_w, bias_before = d_bias;
  product.backward_weight(layer.d_y, layer.x, d_w.tensor, d_bias.tensor.data, Write::accumulate);
  for (std::int64_t o = 0; o < out; ++o) {
    const auto d_column = [&](std::int64_t k) { return layer.read_d_y(k, o); };
    for (std::int64_t j = 0; j < in; ++j) {
      const auto x_column = [&](std::int64_t k) { return layer.read_x(k, j); };
      wrong += !agrees(d_w(o, j), rows, d_column, x_column, w_before(o, j), 0x1p-24);
    }
    // Of the gradients as they are.
    wrong += !agrees(
        d_bias(0, o), rows, [&](std::int64_t k) { return layer.d_y(k, o); }, [](std::int64_t) { return 1; },
        bias_before(0, o), 0x1p-24);
  }
  CHECK(wrong == 0);
}

TEST_CASE("FP8 products note what they see, and compute in bf16 before anything is known") {
  const bool knows = GENERATE(false, true);
  CAPTURE(knows);
  Layer layer(9, 32, 48);
  if (knows) layer.know();
  ops::MatrixProduct& product = layer.product->of(7);
  StoredMatrix y(DataType::bf16, 9, 48), expected(y), d_x(DataType::bf16, 9, 32), expected_d_x(d_x);
  Matrix d_w(48, 32), expected_d_w(48, 32), d_bias(1, 48), expected_d_bias(1, 48);
  product.forward(layer.x, layer.w.tensor, layer.bias.tensor.data, y);
  product.backward_input(layer.d_y, layer.w.tensor, d_x, Write::replace);
  product.backward_weight(layer.d_y, layer.x, d_w.tensor, d_bias.tensor.data, Write::replace);
  layer.inner->forward(layer.x, layer.w.tensor, layer.bias.tensor.data, expected);
  layer.inner->backward_input(layer.d_y, layer.w.tensor, expected_d_x, Write::replace);
  layer.inner->backward_weight(layer.d_y, layer.x, expected_d_w.tensor, expected_d_bias.tensor.data, Write::replace);
  CHECK(y.same_bits(expected) != knows);
  CHECK(d_x.same_bits(expected_d_x) != knows);
  CHECK((d_w(3, 5) == expected_d_w(3, 5)) != knows);
  float x = 0, d_y = 0;
  for (std::int64_t i = 0; i < 9; ++i) {
    for (std::int64_t j = 0; j < 32; ++j) x = std::max(x, std::abs(layer.x(i, j)));
    for (std::int64_t j = 0; j < 48; ++j) d_y = std::max(d_y, std::abs(layer.d_y(i, j)));
  }
  const std::vector<float> seen = test::copy_of(layer.product->scales().step_magnitudes());
  CHECK(seen[0] == x);
  CHECK(seen[1] == d_y);
  CHECK_THROWS_AS(layer.product->of(8), core::Error);
}
