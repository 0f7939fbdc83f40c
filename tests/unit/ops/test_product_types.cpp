// Matrix products of 16-bit operands against inner products in double of the numbers that they read: x and d_y as
// stored, weights (and operands in float) rounded to the type. Sums are floats: their bound is that of
// test_matrix_product.cpp, and a 16-bit result has one rounding more, u·|result| with u = 2⁻⁸ (bf16) or 2⁻¹¹ (fp16).
// Processors that multiply pairs of bf16 round as often: once for each product, which is exact in fp32; denormals,
// which they take for zero, are far below the bound.
#include <omp.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <functional>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/matrix_product.hpp"
#include "support/kernel_kinds.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using ops::Write;
using test::DataType;
using test::Matrix;
using test::StoredMatrix;

namespace {

using Element = std::function<double(std::int64_t, std::int64_t)>;

struct Inner {
  double value, bound;
};
template <class A, class B>
Inner inner(std::int64_t length, const A& a, const B& b) {
  double value = 0, square_a = 0, square_b = 0;
  for (std::int64_t k = 0; k < length; ++k) {
    value += static_cast<double>(a(k)) * b(k);
    square_a += static_cast<double>(a(k)) * a(k);
    square_b += static_cast<double>(b(k)) * b(k);
  }
  const double terms = 4 * std::sqrt(static_cast<double>(length)) + 4;
  return {value, terms * std::ldexp(std::sqrt(square_a * square_b), -24)};
}

// The numbers of a matrix, rounded to a type.
Matrix numbers(const core::ConstMatrix& x, DataType type) {
  StoredMatrix read(type, x.rows, x.columns);
  Matrix result(x.rows, x.columns);
  if (x.type == DataType::fp32) {
    ops::copy(x, read);
    ops::copy(read, result);
  } else {
    ops::copy(x, result);
  }
  return result;
}

// `roundings` of the result's type beside the bound.
void check(const StoredMatrix& result, const std::function<Inner(std::int64_t, std::int64_t)>& expected,
           double roundings = 1.0) {
  core::wait_for_kernels();  // zeros may come from a fill
  std::int64_t wrong = 0;
  const double unit = roundings * core::unit_roundoff(result.view().type);
  for (std::int64_t i = 0; i < result.view().rows; ++i) {
    for (std::int64_t j = 0; j < result.view().columns; ++j) {
      const Inner e = expected(i, j);
      const double bound = e.bound + unit * (std::abs(e.value) + e.bound) + 0x1p-25;
      if (!(std::abs(result(i, j) - e.value) <= bound)) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(result.padding_untouched());
}

struct Extents {
  std::int64_t rows, in, out, padding;
};

// Around tiles, blocks of 384 terms, 192 rows and 256 columns; more terms than one step of products on floats takes.
Extents some_extents() {
  return GENERATE(Extents{1, 1, 1, 0}, Extents{0, 5, 3, 1}, Extents{5, 3, 2, 3}, Extents{33, 128, 31, 5},
                  Extents{97, 130, 129, 7}, Extents{290, 64, 48, 0}, Extents{64, 1537, 70, 0}, Extents{50, 35, 1100, 4},
                  Extents{9, 4500, 20, 0});
}

double gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}
double gelu_slope(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::acos(-1.0));
}
/// Relative error of GELU and of its derivative for results of a type (ops/vector_math.hpp); floats have an absolute
/// one.
double error_of_gelu(DataType type) {
  return type == DataType::fp32 ? 0.0 : 0x1p-12;
}

std::string any_kind() {
  if (core::is_gpu_build()) return GENERATE("cublas", "portable");
  return GENERATE(from_range(test::kinds_under_test({"native", "portable"})));
}

}  // namespace

TEST_CASE("products of 16-bit operands: forward, with and without bias and GELU") {
  const DataType type = GENERATE(DataType::bf16, DataType::fp16),
                 result = GENERATE(false, true) ? type : DataType::fp32;
  const std::string kind = any_kind();
  const Extents e = some_extents();
  CAPTURE(kind, core::name_of(type), core::name_of(result), e.rows, e.in, e.out);
  const bool reproducible = !core::is_gpu_build() || GENERATE(true, false);  // elsewhere they are the same
  const auto product = ops::make_matrix_product(kind, {.compute = type, .reproducible = reproducible});
  product->reserve({e.rows, e.in, e.out});
  product->tune({e.rows, e.in, e.out});
  const StoredMatrix x = StoredMatrix::random(type, e.rows, e.in, 1, 1.0f, e.padding);
  const Matrix w = Matrix::random(e.out, e.in, 2, 0.2f, e.padding), bias = Matrix::random(1, e.out, 3);
  StoredMatrix y(result, e.rows, e.out, e.padding), pre(result, e.rows, e.out, e.padding + 1);
  const Matrix x_read = numbers(x, type), w_read = numbers(w, type);
  const auto plain = [&](std::int64_t i, std::int64_t j) {
    return inner(
        e.in, [&](auto k) { return x_read(i, k); }, [&](auto k) { return w_read(j, k); });
  };
  // The epilogues of GPUs read the bias in the result's type.
  const double bias_rounding = core::is_gpu_build() ? core::unit_roundoff(result) : 0.0;
  const auto biased = [&](std::int64_t i, std::int64_t j) {
    const Inner p = plain(i, j);
    return Inner{p.value + bias(0, j), p.bound + (2.4e-7 + bias_rounding) * std::abs(bias(0, j))};
  };
  product->forward(x, w, nullptr, y);
  check(y, plain);
  product->forward(x, w, bias.tensor().data, y);
  check(y, biased, core::is_gpu_build() ? 2.0 : 1.0);
  product->forward(x, w, {bias.tensor().data, ops::Activation::gelu, pre}, y);
  check(pre, biased, core::is_gpu_build() ? 2.0 : 1.0);
  // The result is a function of `pre` as stored, apart from its own rounding error.
  const double relative = error_of_gelu(result);
  check(y, [&](auto i, auto j) {
    const double value = gelu(pre(i, j));
    return Inner{value, 4e-7 * std::abs(pre(i, j)) + relative * std::abs(value)};
  });
}

TEST_CASE("products of 16-bit operands: backward") {
  const DataType type = GENERATE(DataType::bf16, DataType::fp16),
                 result = GENERATE(false, true) ? type : DataType::fp32;
  const DataType gradient = result == type ? DataType::fp32 : type;  // of d_y: float is rounded as it is read
  const std::string kind = any_kind();
  const Extents e = some_extents();
  CAPTURE(kind, core::name_of(type), core::name_of(result), core::name_of(gradient), e.rows, e.in, e.out);
  const bool reproducible = !core::is_gpu_build() || GENERATE(true, false);  // elsewhere they are the same
  const auto product = ops::make_matrix_product(kind, {.compute = type, .reproducible = reproducible});
  product->reserve({e.rows, e.in, e.out});
  product->tune({e.rows, e.in, e.out});
  const StoredMatrix d_y = StoredMatrix::random(gradient, e.rows, e.out, 1, 1.0f, e.padding);
  const Matrix w = Matrix::random(e.out, e.in, 2, 0.2f, e.padding);
  const Matrix read = numbers(d_y, type), w_read = numbers(w, type);
  const auto plain = [&](std::int64_t i, std::int64_t j) {
    return inner(
        e.out, [&](auto k) { return read(i, k); }, [&](auto k) { return w_read(k, j); });
  };
  StoredMatrix d_x(result, e.rows, e.in, e.padding);
  product->backward_input(d_y, w, d_x, Write::replace);
  check(d_x, plain);
  const StoredMatrix before = StoredMatrix::random(result, e.rows, e.in, 4);
  for (std::int64_t i = 0; i < e.rows; ++i) {
    for (std::int64_t j = 0; j < e.in; ++j) d_x.set(i, j, before(i, j));
  }
  product->backward_input(d_y, w, d_x, Write::accumulate);
  // On an H100 cuBLASLt's results broke a bound of one rounding as often as if products were rounded before they are
  // added to what is there.
  const double product_rounding = core::is_gpu_build() ? core::unit_roundoff(result) : 0.0;
  check(d_x, [&](auto i, auto j) {
    const Inner p = plain(i, j);
    return Inner{p.value + before(i, j),
                 p.bound + product_rounding * std::abs(p.value) + 2.4e-7 * std::abs(before(i, j))};
  });
  const StoredMatrix pre = StoredMatrix::random(result, e.rows, e.in, 5, 1.0f, 1);
  product->backward_input(d_y, w, d_x, {ops::Activation::gelu, pre});
  check(
      d_x,
      [&](auto i, auto j) {
        const Inner p = plain(i, j);
        const double slope = gelu_slope(pre(i, j)), error = 4e-7 + error_of_gelu(result) * std::abs(slope);
        return Inner{p.value * slope, 1.13 * p.bound + error * std::abs(p.value)};
      },
      core::is_gpu_build() ? 2.2 : 1.0);

  // Gradients of parameters are floats; a bias's is the sum of d_y as it is stored.
  const StoredMatrix x = StoredMatrix::random(type, e.rows, e.in, 6, 1.0f, 2);
  const Matrix x_read = numbers(x, type);
  const StoredMatrix d_w_before = StoredMatrix::random(DataType::fp32, e.out, e.in, 7);
  StoredMatrix d_w = d_w_before;
  Matrix d_bias(1, e.out);
  std::fill(d_bias.values.begin(), d_bias.values.end(), 0.5f);
  product->backward_weight(d_y, x, d_w.view().as<float>(), d_bias.values.data(), Write::accumulate);
  check(d_w, [&](auto i, auto j) {
    const Inner p = inner(
        e.rows, [&](auto k) { return read(k, i); }, [&](auto k) { return x_read(k, j); });
    return Inner{p.value + d_w_before(i, j), p.bound + 2.4e-7 * std::abs(d_w_before(i, j))};
  });
  for (std::int64_t j = 0; j < e.out; ++j) {
    const Inner p = inner(
        e.rows, [&](auto k) { return d_y(k, j); }, [](auto) { return 1.0; });
    CHECK(std::abs(d_bias(0, j) - p.value - 0.5) <= p.bound + 1e-6);
  }
}

TEST_CASE("a weight's gradient that is replaced may be stored in 16 bits, and each sum is rounded once") {
  const DataType type = GENERATE(DataType::bf16, DataType::fp16);
  const std::string kind = any_kind();
  const std::int64_t rows = GENERATE(0, 7, 1500), in = 40, out = 24;  // 1500: several steps of the inner dimension
  CAPTURE(kind, core::name_of(type), rows);
  const auto product = ops::make_matrix_product(kind, {.compute = type, .weight_gradients = type});
  product->reserve({rows, in, out});
  const StoredMatrix d_y = StoredMatrix::random(type, rows, out, 1), x = StoredMatrix::random(type, rows, in, 2);
  StoredMatrix d_w = StoredMatrix::random(type, out, in, 3);
  Matrix d_bias(1, out);
  product->backward_weight(d_y, x, d_w, d_bias.values.data(), Write::replace);
  check(d_w, [&](auto i, auto j) {
    return inner(
        rows, [&](auto k) { return d_y(k, i); }, [&](auto k) { return x(k, j); });
  });
  for (std::int64_t j = 0; j < out; ++j) {
    const Inner p = inner(
        rows, [&](auto k) { return d_y(k, j); }, [](auto) { return 1.0; });
    CHECK(std::abs(d_bias(0, j) - p.value) <= p.bound);
  }
  CHECK_THROWS_AS(product->backward_weight(d_y, x, d_w, nullptr, Write::accumulate), core::Error);
}

TEST_CASE("a row of a 16-bit product does not depend on other rows or the number of threads") {
  const DataType type = GENERATE(DataType::bf16, DataType::fp16);
  const auto product = ops::make_matrix_product(test::independent_products(), {.compute = type});
  const std::int64_t rows = 300, in = 500, out = 140;
  product->reserve({rows, in, out});
  const StoredMatrix x = StoredMatrix::random(type, rows, in, 1);
  const Matrix w = Matrix::random(out, in, 2), bias = Matrix::random(1, out, 3);
  StoredMatrix y(type, rows, out), part(type, 5, out);
  product->forward(x, w, bias.values.data(), y);
  const int threads = omp_get_max_threads();
  for (const std::int64_t first : {0, 7, 192, 295}) {
    omp_set_num_threads(1);
    product->forward(core::ConstMatrix(x).row_range(first, 5), w, bias.values.data(), part);
    omp_set_num_threads(threads);
    std::int64_t different = 0;
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t j = 0; j < out; ++j) different += part(i, j) != y(first + i, j);
    }
    CHECK(different == 0);
  }
}

namespace {

/// Σ a(k) · b(k) of `length` terms in the exact order of the native kernels: one chain of fused multiply-adds, in pairs
/// the second element first (isa/words.hpp). Tile registers add one sum of each 16 whole pairs to the chain, that of
/// their first elements plus that of their second ones (amx/tile_registers.hpp).
template <class A, class B>
float chained(std::int64_t length, bool pairs, bool tiles, const A& a, const B& b) {
  constexpr std::int64_t together = 32;
  float sum = 0;
  std::int64_t k = 0;
  for (; tiles && k + together - 1 <= length; k += together) {
    float parts[2] = {0, 0};
    for (std::int64_t l = k; l < std::min(k + together, length); ++l) parts[l % 2] = std::fma(a(l), b(l), parts[l % 2]);
    sum += parts[0] + parts[1];
  }
  for (; k < length; ++k) {
    const std::int64_t other = k ^ 1, term = !pairs ? k : other < length ? other : k;
    sum = std::fma(a(term), b(term), sum);
  }
  return sum;
}

}  // namespace

// The exact order of sums makes the bits of a row independent of other rows.
TEST_CASE("an element of a bf16 product is summed in one order") {
  const auto product =
      ops::make_matrix_product(core::is_gpu_build() ? "portable" : "native", {.compute = DataType::bf16});
  if (product->name().find("x86_64") == std::string::npos) SKIP("no fused multiply-adds: " << product->name());
  const bool tiles = product->name().find("amx") != std::string::npos;
  const bool pairs = tiles || product->name().find("bf16") != std::string::npos;
  const std::int64_t rows = 13, in = GENERATE(2, 7, 63, 64, 801, 1540), out = 35;
  CAPTURE(product->name(), in);
  product->reserve({rows, in, out});
  const StoredMatrix x = StoredMatrix::random(DataType::bf16, rows, in, 1);
  const Matrix w = Matrix::random(out, in, 2), w_read = numbers(w, DataType::bf16);
  StoredMatrix y(DataType::fp32, rows, out);
  product->forward(x, w, nullptr, y);
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < out; ++j) {
      const float sum = chained(
          in, pairs, tiles, [&](std::int64_t k) { return static_cast<float>(x(i, k)); },
          [&](std::int64_t k) { return w_read(j, k); });
      different += static_cast<float>(y(i, j)) != sum;
    }
  }
  CHECK(different == 0);
}

TEST_CASE("TF32 rounds fp32 operands on tensor cores, and changes no result elsewhere") {
  const std::int64_t rows = 70, in = 96, out = 64;
  const auto exact = ops::make_matrix_product(test::independent_products()),
             tf32 = ops::make_matrix_product(test::independent_products(), {.tf32 = true});
  exact->reserve({rows, in, out});
  tf32->reserve({rows, in, out});
  const Matrix x = Matrix::random(rows, in, 1), w = Matrix::random(out, in, 2);
  Matrix y(rows, out), y2(rows, out);
  exact->forward(x, w, nullptr, y);
  tf32->forward(x, w, nullptr, y2);
  CHECK((y.values == y2.values) == !ops::has_tf32());
  // 10 bits of fraction: each operand is off by 2⁻¹¹ of itself at most, or by twice that where it is cut off.
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < out; ++j) {
      double terms = 0;
      for (std::int64_t k = 0; k < in; ++k) terms += std::abs(static_cast<double>(x(i, k)) * w(j, k));
      if (!(std::abs(y(i, j) - y2(i, j)) <= 2.1 * 0x1p-10 * terms)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("products refuse types that they were not made for") {
  const auto product = ops::make_matrix_product("", {.compute = DataType::bf16});
  product->reserve({2, 2, 2});
  const StoredMatrix x(DataType::fp16, 2, 2);
  const Matrix w = Matrix::random(2, 2, 1);
  StoredMatrix y(DataType::bf16, 2, 2);
  CHECK_THROWS_AS(product->forward(x, w, nullptr, y), core::Error);
  for (const char* kind : {"onednn", "blas"}) {
    CHECK_THROWS_AS(ops::make_matrix_product(kind, {.compute = DataType::bf16}), core::Error);
  }
}
