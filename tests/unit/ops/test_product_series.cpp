// Series of products against inner products in double of the numbers that they read: operands side by side, as those of
// the adapters of joined layers, with weights as floats and as kept copies. A result has one rounding of its type, or
// two if a pass scales the stored product, or cuBLASLt adds the rounded product to what there is.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <functional>

#include "bert_hpc/ops/matrix_product.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "support/kernel_kinds.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using ops::Write;
using test::DataType;
using test::StoredMatrix;

namespace {

constexpr std::int64_t rows = 70, in = 48, out = 8;

/// `count` weights (out, in), one behind the other in the arena, and a larger one that no series has.
core::ParameterStore weights(std::int64_t count) {
  std::vector<core::ParameterSpec> specs = {{"other", {3, 5}}};
  for (std::int64_t i = 0; i < count; ++i) specs.push_back({"w" + std::to_string(i), {out, in}});
  core::ParameterStore store(specs, core::ParameterStore::Arenas::values);
  ops::fill_normal(store.change_values(), 0.3f, 7);
  return store;
}

std::string any_kind(DataType type) {
  if (core::is_gpu_build()) return GENERATE("cublas", "portable");
  if (type == DataType::fp32) return GENERATE(from_range(test::kinds_under_test({"tuned", "library", "portable"})));
  return GENERATE(from_range(test::kinds_under_test({"native", "portable"})));
}

using Element = std::function<double(std::int64_t, std::int64_t, std::int64_t)>;

/// Every element of matrix i, whose columns begin at i · step, is `expected` but for `roundings` of its type, one of
/// the product that was added to `before` (null: none), and the errors of sums in float of terms below `largest`.
void check(const StoredMatrix& result, std::int64_t count, std::int64_t step, std::int64_t columns, double roundings,
           double largest, const Element& expected, const StoredMatrix* before = nullptr) {
  const double one = core::unit_roundoff(result.view().type), unit = roundings * one;
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t r = 0; r < result.rows(); ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const double value = expected(i, r, c);
        const double product = before != nullptr ? value - (*before)(r, i * step + c) : 0.0;
        const double bound = unit * std::abs(value) + one * std::abs(product) + largest * 0x1p-18;
        if (!(std::abs(result(r, i * step + c) - value) <= bound)) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(result.padding_untouched());
}

}  // namespace

TEST_CASE("a series of products computes each of its products") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const std::string kind = any_kind(type);
  const std::int64_t count = GENERATE(1, 2, 3), gap = GENERATE(0, 16);  // gap: columns of another layer between them
  const bool kept = GENERATE(false, true), reproducible = GENERATE(false, true);
  CAPTURE(core::name_of(type), kind, count, gap, kept);
  const core::ParameterStore store = weights(count);
  const auto products = ops::make_matrix_product(kind, {.compute = type, .reproducible = reproducible});
  if (kept) products->keep_weights(store);
  const ops::ProductExtents extents{rows, in, out, count};
  products->reserve(extents);
  products->tune(extents);

  const core::Tensor<const float> w = store.value(1);
  const std::int64_t wide = in + gap, across = store.slices()[count > 1 ? 2 : 1].offset - store.slices()[1].offset;
  const ops::ProductSeries series{.count = count, .x = wide, .w = across, .y = out};
  const StoredMatrix x = StoredMatrix::random(type, rows, count * wide, 1),
                     y = StoredMatrix::random(type, rows, count * out, 2);
  const auto weight = [&](std::int64_t i, std::int64_t o, std::int64_t k) {
    return test::rounded(type, test::copy_of(store.value(static_cast<int>(1 + i)).row(o) + k, 1)[0]);
  };
  std::vector<float> read(static_cast<std::size_t>(count * out * in));
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t k = 0; k < in; ++k) read[static_cast<std::size_t>((i * out + o) * in + k)] = weight(i, o, k);
    }
  }
  const auto w_of = [&](std::int64_t i, std::int64_t o, std::int64_t k) {
    return static_cast<double>(read[static_cast<std::size_t>((i * out + o) * in + k)]);
  };
  const auto first = [](const core::ConstMatrix& all, std::int64_t columns) { return all.column_range(0, columns); };

  constexpr float factor = 1.75f;
  StoredMatrix forward(type, rows, count * out, 3);
  products->forward_series(series, factor, first(x.view(), in), w, forward.view().column_range(0, out));
  const Element product = [&](std::int64_t i, std::int64_t r, std::int64_t o) {
    double sum = 0;
    for (std::int64_t k = 0; k < in; ++k) sum += x(r, i * wide + k) * w_of(i, o, k);
    return factor * sum;
  };
  core::wait_for_kernels();
  check(forward, count, out, out, 2.01, in, product);

  const StoredMatrix before = StoredMatrix::random(type, rows, count * wide, 3);
  StoredMatrix added = before;
  products->backward_input_series(series, first(y.view(), out), w, added.view().column_range(0, in), Write::accumulate);
  core::wait_for_kernels();
  check(
      added, count, wide, in, 1.01, out,
      [&](std::int64_t i, std::int64_t r, std::int64_t k) {
        double sum = before(r, i * wide + k);
        for (std::int64_t o = 0; o < out; ++o) sum += y(r, i * out + o) * w_of(i, o, k);
        return sum;
      },
      &before);
  for (std::int64_t r = 0; r < rows; ++r) {  // other layers' columns
    for (std::int64_t c = in; c < count * wide; ++c) {
      if (c % wide >= in) REQUIRE(added(r, c) == before(r, c));
    }
  }

  StoredMatrix gradients(DataType::fp32, count * out, in);
  const ops::ProductSeries of_gradients{.count = count, .x = wide, .w = out * in, .y = out};
  products->backward_weight_series(of_gradients, first(y.view(), out), first(x.view(), in),
                                   gradients.view().row_range(0, out), Write::replace);
  core::wait_for_kernels();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t k = 0; k < in; ++k) {
        double sum = 0;
        for (std::int64_t r = 0; r < rows; ++r) sum += static_cast<double>(y(r, i * out + o)) * x(r, i * wide + k);
        if (!(std::abs(gradients(i * out + o, k) - sum) <= rows * 0x1p-18)) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a series without rows replaces gradients by zeros") {
  const auto products = ops::make_matrix_product();
  products->reserve({1, in, out, 2});
  StoredMatrix gradients(DataType::fp32, 2 * out, in), empty(DataType::fp32, 0, 2 * in);
  products->backward_weight_series({.count = 2, .x = in, .w = out * in, .y = out}, empty.view().column_range(0, out),
                                   empty.view().column_range(0, in), gradients.view().row_range(0, out),
                                   Write::replace);
  core::wait_for_kernels();
  for (const float x : gradients.floats()) CHECK(x == 0.0f);
}
