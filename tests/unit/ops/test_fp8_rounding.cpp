// FP8 rounding against the nearest of all 8-bit numbers; histories and scales against the definition of delayed
// scaling.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <deque>
#include <limits>
#include <tuple>

#include "../src/ops/fp8_byte_product.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "support/fp8_case.hpp"

using namespace bert_hpc;
using core::Float8;
using ops::Fp8Operand;
using test::DataType;
using test::nearest;
using test::note;
using test::OneScale;
using test::StoredMatrix;

namespace {

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
    // A larger record stays; the record of a NaN is infinity.
    given.numbers[2] = 1e30f;
    ops::note_magnitude(x, given.view());
    CHECK(given.numbers[2] == 1e30f);
    StoredMatrix bad(x);
    bad.set(rows - 1, columns - 1, std::numeric_limits<float>::quiet_NaN());
    ops::note_magnitude(bad, given.view());
    CHECK(std::isinf(given.numbers[2]));
  }
}

TEST_CASE("8-bit numbers, and transposed ones padded with zeros, equal the rounded values") {
  const DataType type = GENERATE(DataType::bf16, DataType::fp32);
  const Float8 format = GENERATE(Float8::e4m3, Float8::e5m2);
  const std::int64_t rows = GENERATE(1, 16, 31, 33, 100), columns = GENERATE(16, 8, 37, 272), padding = GENERATE(0, 3);
  CAPTURE(core::name_of(type), core::largest_of(format), rows, columns, padding);
  const StoredMatrix x = StoredMatrix::random(type, rows, columns, 3, 5.0f, padding);
  constexpr float scale = 16.0f;
  OneScale given(format, scale);
  const auto value = [format](std::uint8_t bits) {
    return format == Float8::e4m3 ? core::float_of_float8<Float8::e4m3>(bits)
                                  : core::float_of_float8<Float8::e5m2>(bits);
  };
  constexpr std::uint8_t mark = 0xA5;
  test::Vector<std::uint8_t> plain(static_cast<std::size_t>(rows * (columns + padding)), mark);
  ops::round_to_fp8(x, given.view(), true, {plain.data(), rows, columns, columns + padding});
  const std::int64_t padded = ops::padded_rows(rows), stride = padded + 16 * padding;
  REQUIRE((padded % 16 == 0 && padded >= rows && padded < rows + 16));
  test::Vector<std::uint8_t> transposed(static_cast<std::size_t>(columns * stride), mark);
  ops::round_to_fp8_transposed(x, given.view(), false, {transposed.data(), columns, padded, stride});
  std::int64_t wrong = 0;
  float largest = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const double expected = nearest(x(i, j) * scale, format);
      wrong += value(plain[static_cast<std::size_t>(i * (columns + padding) + j)]) != expected;
      wrong += value(transposed[static_cast<std::size_t>(j * stride + i)]) != expected;
      largest = std::max(largest, std::abs(x(i, j)));
    }
    for (std::int64_t i = rows; i < stride; ++i) {
      wrong += transposed[static_cast<std::size_t>(j * stride + i)] != (i < padded ? 0 : mark);
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = columns; j < columns + padding; ++j) {
      wrong += plain[static_cast<std::size_t>(i * (columns + padding) + j)] != mark;
    }
  }
  CHECK(wrong == 0);
  CHECK(given.numbers[2] == largest);
  // Both in one pass, which notes the magnitude, too.
  given.numbers[2] = 0;
  test::Vector<std::uint8_t> both(plain.size(), mark), again(transposed.size(), mark);
  ops::round_to_fp8_transposed(x, given.view(), true, {again.data(), columns, padded, stride},
                               {both.data(), rows, columns, columns + padding});
  CHECK(both == plain);
  CHECK(again == transposed);
}

TEST_CASE("GELU and its gradient are rounded to the 8-bit numbers of their stored results") {
  const std::int64_t rows = GENERATE(1, 31, 128, 300), columns = GENERATE(16, 37, 264);
  CAPTURE(rows, columns);
  const StoredMatrix x = StoredMatrix::random(DataType::bf16, rows, columns, 3, 3.0f, 3);
  const StoredMatrix pre = StoredMatrix::random(DataType::bf16, rows, columns, 4, 3.0f);
  StoredMatrix gelu(DataType::bf16, rows, columns), gradient(DataType::bf16, rows, columns);
  ops::gelu_forward(x, gelu);
  ops::gelu_backward(pre, x, gradient);
  test::Matrix partial(ops::ProductOperand::partial_sums(rows), columns);
  const std::int64_t padded = ops::padded_rows(rows);
  const auto transposed = [&](const ops::ProductOperand& operand, Float8 format) {
    OneScale scale(format, 16.0f);
    test::Vector<std::uint8_t> both[] = {test::Vector<std::uint8_t>(static_cast<std::size_t>(rows * columns)),
                                         test::Vector<std::uint8_t>(static_cast<std::size_t>(padded * columns))};
    ops::round_to_fp8_transposed(operand, scale.view(), true, {both[1].data(), columns, padded},
                                 {both[0].data(), rows, columns});
    return std::tuple(both[0], both[1], scale.numbers[2]);
  };
  CHECK(transposed(ops::ProductOperand::gelu(x), Float8::e4m3) == transposed(gelu, Float8::e4m3));
  CHECK(transposed(ops::ProductOperand::gelu_gradient(x, pre, partial.tensor()), Float8::e5m2) ==
        transposed(gradient, Float8::e5m2));
  std::int64_t wrong = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t part = 0; part < partial.rows; ++part) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 128 * part; i < std::min(rows, 128 * (part + 1)); ++i) {
        sum += gradient(i, j);
        magnitude += std::abs(gradient(i, j));
      }
      // 4 additions in a thread, 2 in a warp, 7 of warps.
      wrong += std::abs(partial(part, j) - sum) > 13 * 0x1p-24 * magnitude;
    }
  }
  CHECK(wrong == 0);
  OneScale once(Float8::e4m3, 16.0f), again(Float8::e4m3, 16.0f);
  test::Vector<std::uint8_t> plain(static_cast<std::size_t>(rows * columns)), expected(plain);
  ops::round_to_fp8(ops::ProductOperand::gelu(x), once.view(), true, {plain.data(), rows, columns});
  ops::round_to_fp8(gelu, again.view(), true, {expected.data(), rows, columns});
  CHECK(plain == expected);
  CHECK(once.numbers[2] == again.numbers[2]);
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
    CHECK(scale_of(scales, 0, Fp8Operand::x) == 1.0f);  // only zeros were seen
    for (const float noted : test::copy_of(scales.step_magnitudes())) CHECK(noted == 0.0f);
  }
}

TEST_CASE("histories leave out values that are not finite and values of skipped steps") {
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

TEST_CASE("histories are written to a text and read back among other entries") {
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
