#include <omp.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/matrix_product.hpp"
#include "support/kernel_kinds.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using ops::MatrixProduct;
using ops::Write;
using test::Matrix;

namespace {

// The back ends of this build on this processor.
std::vector<std::string> kinds() {
  std::vector<std::string> found;
  for (const std::string& kind : test::kinds_under_test({"native", "onednn", "blas", "cublas", "portable"})) {
    try {
      ops::make_matrix_product(kind);
      found.push_back(kind);
    } catch (const core::Error&) {
    }
  }
  return found;
}

struct Extents {
  std::int64_t rows, in, out, padding;
};

// Odd sizes around the tile sizes of every kernel, long reductions over several blocks, rows 0 and 1.
Extents some_extents() {
  return GENERATE(Extents{1, 1, 1, 0}, Extents{0, 5, 3, 1}, Extents{1, 768, 33, 0}, Extents{5, 3, 2, 3},
                  Extents{6, 16, 16, 0}, Extents{7, 17, 15, 1}, Extents{33, 128, 31, 5}, Extents{97, 130, 129, 7},
                  Extents{290, 64, 48, 0}, Extents{1030, 20, 9, 2}, Extents{64, 1537, 70, 0}, Extents{50, 35, 1100, 4},
                  Extents{9, 4500, 20, 0});
}

double gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}
double gelu_slope(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::acos(-1.0));
}

// Inner product of `length` terms in double, and the bound on its float error: each of its roundings is at most 2⁻²⁴ of
// a partial sum, partial sums are at most about the product of the norms, and roundings add up like a random walk, for
// which four standard deviations are allowed; four more roundings for bias, accumulation and epilogue.
struct Inner {
  double value, bound;
};
Inner inner(std::int64_t length, const std::function<double(std::int64_t)>& a,
            const std::function<double(std::int64_t)>& b) {
  double value = 0, square_a = 0, square_b = 0;
  for (std::int64_t k = 0; k < length; ++k) {
    value += a(k) * b(k);
    square_a += a(k) * a(k);
    square_b += b(k) * b(k);
  }
  const double terms = 4 * std::sqrt(static_cast<double>(length)) + 4;
  return {value, terms * std::ldexp(std::sqrt(square_a * square_b), -24)};
}

// Every element is within its bound; `other` adds the error outside the product to the bound.
void check_elements(const Matrix& result, const std::function<Inner(std::int64_t, std::int64_t)>& expected) {
  core::wait_for_kernels();  // zeros may come from a fill
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < result.rows; ++i) {
    for (std::int64_t j = 0; j < result.columns; ++j) {
      const Inner e = expected(i, j);
      if (!(std::abs(result(i, j) - e.value) <= e.bound)) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(result.padding_untouched());
}

constexpr double rounding = 6e-8;  // 2⁻²⁴

}  // namespace

TEST_CASE("forward products, with and without bias and GELU") {
  const std::string kind = GENERATE(from_range(kinds()));
  const Extents e = some_extents();
  CAPTURE(kind, e.rows, e.in, e.out);
  const auto product = ops::make_matrix_product(kind);
  product->reserve({e.rows, e.in, e.out});
  const Matrix x = Matrix::random(e.rows, e.in, 1, 1.0f, e.padding);
  const Matrix w = Matrix::random(e.out, e.in, 2, 0.2f, e.padding);
  const Matrix bias = Matrix::random(1, e.out, 3);
  Matrix y(e.rows, e.out, e.padding), pre(e.rows, e.out, e.padding + 1);

  const auto plain = [&](std::int64_t i, std::int64_t j) {
    return inner(
        e.in, [&](auto k) { return x(i, k); }, [&](auto k) { return w(j, k); });
  };
  const auto biased = [&](std::int64_t i, std::int64_t j) {
    const Inner p = plain(i, j);
    return Inner{p.value + bias(0, j), p.bound + 4 * rounding * std::abs(bias(0, j))};
  };
  product->forward(x, w, nullptr, y);
  check_elements(y, plain);
  product->forward(x, w, bias.tensor().data, y);
  check_elements(y, biased);
  Matrix activated(e.rows, e.out, e.padding);
  product->forward(x, w, {bias.tensor().data, ops::Activation::gelu, pre}, activated);
  check_elements(pre, biased);
  // The slope of GELU is below 1.13; its own error is below 4e-7·|x| in any of the implementations.
  check_elements(activated, [&](auto i, auto j) {
    const Inner p = biased(i, j);
    return Inner{gelu(p.value), 1.13 * p.bound + 4e-7 * std::abs(p.value)};
  });
}

TEST_CASE("products for the gradient of the input") {
  const std::string kind = GENERATE(from_range(kinds()));
  const Extents e = some_extents();
  CAPTURE(kind, e.rows, e.in, e.out);
  const auto product = ops::make_matrix_product(kind);
  product->reserve({e.rows, e.in, e.out});
  const Matrix d_y = Matrix::random(e.rows, e.out, 1, 1.0f, e.padding);
  const Matrix w = Matrix::random(e.out, e.in, 2, 0.2f, e.padding);
  const Matrix before = Matrix::random(e.rows, e.in, 3, 1.0f, e.padding);
  Matrix d_x(e.rows, e.in, e.padding), added(before);

  const auto plain = [&](std::int64_t i, std::int64_t j) {
    return inner(
        e.out, [&](auto k) { return d_y(i, k); }, [&](auto k) { return w(k, j); });
  };
  product->backward_input(d_y, w, d_x, Write::replace);
  check_elements(d_x, plain);
  product->backward_input(d_y, w, added, Write::accumulate);
  check_elements(added, [&](auto i, auto j) {
    const Inner p = plain(i, j);
    const double terms = 4 * std::sqrt(static_cast<double>(e.out)) + 4;  // the old value may take part in every sum
    return Inner{p.value + before(i, j), p.bound + terms * rounding * std::abs(before(i, j))};
  });
  const Matrix pre = Matrix::random(e.rows, e.in, 4, 2.0f, e.padding + 2);
  product->backward_input(d_y, w, d_x, {ops::Activation::gelu, pre});
  // The slope is below 1.13 and accurate to 1e-6 of its largest value in any of the implementations.
  check_elements(d_x, [&](auto i, auto j) {
    const Inner p = plain(i, j);
    return Inner{p.value * gelu_slope(pre(i, j)), 1.13 * p.bound + 1e-6 * std::abs(p.value)};
  });
}

TEST_CASE("products for the gradient of weight and bias") {
  const std::string kind = GENERATE(from_range(kinds()));
  const Extents e = some_extents();
  CAPTURE(kind, e.rows, e.in, e.out);
  const auto product = ops::make_matrix_product(kind);
  product->reserve({e.rows, e.in, e.out});
  const Matrix d_y = Matrix::random(e.rows, e.out, 1, 1.0f, e.padding);
  const Matrix x = Matrix::random(e.rows, e.in, 2, 1.0f, e.padding);
  const Matrix before = Matrix::random(e.out, e.in, 3, 1.0f, e.padding);
  const Matrix bias_before = Matrix::random(1, e.out, 4);
  Matrix d_w(e.out, e.in, e.padding), added(before), d_bias(1, e.out), bias_added(bias_before);

  const auto plain = [&](std::int64_t i, std::int64_t j) {
    return inner(
        e.rows, [&](auto k) { return d_y(k, i); }, [&](auto k) { return x(k, j); });
  };
  const auto sums = [&](std::int64_t, std::int64_t j) {
    return inner(
        e.rows, [&](auto k) { return d_y(k, j); }, [](auto) { return 1.0; });
  };
  const double terms = 4 * std::sqrt(static_cast<double>(e.rows)) + 4;
  product->backward_weight(d_y, x, d_w, nullptr, Write::replace);
  check_elements(d_w, plain);
  product->backward_weight(d_y, x, d_w, d_bias.tensor().data, Write::replace);
  check_elements(d_w, plain);
  check_elements(d_bias, sums);
  product->backward_weight(d_y, x, added, bias_added.tensor().data, Write::accumulate);
  check_elements(added, [&](auto i, auto j) {
    const Inner p = plain(i, j);
    return Inner{p.value + before(i, j), p.bound + terms * rounding * std::abs(before(i, j))};
  });
  check_elements(bias_added, [&](auto i, auto j) {
    const Inner p = sums(i, j);
    return Inner{p.value + bias_before(0, j), p.bound + terms * rounding * std::abs(bias_before(0, j))};
  });
}

// A product of some rows, with everything fused to it, must give the bits that the same rows have in the whole product:
// at another index, with other neighbours, another alignment and another number of threads.
TEST_CASE("a row of a product does not depend on other rows") {
  const Extents e =
      GENERATE(Extents{97, 130, 71, 0}, Extents{640, 128, 128, 0}, Extents{61, 700, 48, 3}, Extents{30, 9, 600, 1});
  const int all_threads = omp_get_max_threads();
  const auto product = ops::make_matrix_product(GENERATE(test::independent_products(), "portable"));
  CHECK(product->rows_are_independent());
  product->reserve({e.rows, e.in, e.out});
  const Matrix x = Matrix::random(e.rows, e.in, 1, 1.0f, e.padding);
  const Matrix w = Matrix::random(e.out, e.in, 2, 0.2f);
  const Matrix d_y = Matrix::random(e.rows, e.out, 3, 1.0f, e.padding);
  const Matrix in_pre = Matrix::random(e.rows, e.in, 4);
  const Matrix bias = Matrix::random(1, e.out, 5);

  // The bits of rows [begin, begin + count) after each form, computed alone into memory with `padding`.
  const auto bits = [&](std::int64_t begin, std::int64_t count, std::int64_t padding) {
    const auto rows = [&](const Matrix& m) { return m.tensor().row_range(begin, count); };
    Matrix y(count, e.out, padding), pre(count, e.out, padding), d_x(count, e.in, padding);
    test::Vector<std::uint64_t> found;
    const auto note = [&](const Matrix& m) {
      for (std::int64_t i = 0; i < count; ++i) found.push_back(test::bits_of(m.tensor().row_range(i, 1)));
    };
    product->forward(rows(x), w, bias.tensor().data, y);
    note(y);
    product->forward(rows(x), w, {bias.tensor().data, ops::Activation::gelu, pre}, y);
    note(y);
    product->backward_input(rows(d_y), w, d_x, Write::replace);
    note(d_x);
    product->backward_input(rows(d_y), w, d_x, Write::accumulate);
    note(d_x);
    product->backward_input(rows(d_y), w, d_x, {ops::Activation::gelu, rows(in_pre)});
    note(d_x);
    return found;
  };
  const auto whole = bits(0, e.rows, 0);
  const auto check_part = [&](std::int64_t begin, std::int64_t count, std::int64_t padding) {
    const auto part = bits(begin, count, padding);
    std::int64_t differing = 0;
    for (std::int64_t form = 0; form < 5; ++form) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = [&](std::int64_t rows, std::int64_t row) {
          return static_cast<std::size_t>(form * rows + row);
        };
        if (part[at(count, i)] != whole[at(e.rows, begin + i)]) ++differing;
      }
    }
    CAPTURE(begin, count, padding);
    CHECK(differing == 0);
  };
  // cuBLASLt's algorithms differ by alignment, which is that of whole vectors in a model.
  const std::int64_t unit = core::is_gpu_build() ? 4 : 1;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    check_part(0, e.rows, unit);
    check_part(5, e.rows - 5, 0);
    check_part(11, 13, 7 * unit);
    check_part(e.rows - 1, 1, 0);
  }
  omp_set_num_threads(all_threads);
}

TEST_CASE("gradients of weight and bias do not depend on the number of threads") {
  const Extents e = GENERATE(Extents{700, 130, 71, 0}, Extents{97, 64, 640, 1}, Extents{1100, 300, 200, 3});
  const int all_threads = omp_get_max_threads();
  const auto product = ops::make_matrix_product(GENERATE(test::independent_products(), "portable"));
  CHECK(product->rows_are_independent());
  product->reserve({e.rows, e.in, e.out});
  const Matrix x = Matrix::random(e.rows, e.in, 1, 1.0f, e.padding);
  const Matrix d_y = Matrix::random(e.rows, e.out, 2, 1.0f, e.padding);
  test::Vector<std::uint64_t> weight, bias;
  for (const int threads : {1, 2, 3, 5}) {
    omp_set_num_threads(threads);
    Matrix d_w(e.out, e.in, threads), d_bias(1, e.out);
    product->backward_weight(d_y, x, d_w, d_bias.tensor().data, Write::replace);
    product->backward_weight(d_y, x, d_w, d_bias.tensor().data, Write::accumulate);
    weight.push_back(test::bits_of(d_w));
    bias.push_back(test::bits_of(d_bias));
  }
  omp_set_num_threads(all_threads);
  CHECK(weight == test::Vector<std::uint64_t>(4, weight[0]));
  CHECK(bias == test::Vector<std::uint64_t>(4, bias[0]));
}

TEST_CASE("a product that is larger than reserved is refused") {
  if (core::is_gpu_build()) SKIP("the library takes operands in fp32 from where they are");
  const auto product = ops::make_matrix_product("native");
  product->reserve({8, 8, 8});
  const Matrix x(8, 64), w(8, 64);
  Matrix y(8, 8);
  CHECK_THROWS_AS(product->forward(x, w, nullptr, y), core::Error);
}

TEST_CASE("an unknown back end and shapes that disagree are refused") {
  CHECK_THROWS_AS(ops::make_matrix_product("abacus"), core::Error);
  const std::string kind = GENERATE(from_range(kinds()));
  const auto product = ops::make_matrix_product(kind);
  product->reserve({4, 8, 8});
  CHECK_FALSE(product->name().empty());
  Matrix x(4, 8), w(8, 8), y(4, 8), narrow(4, 7), shorter(3, 8);
  CHECK_THROWS_AS(product->forward(narrow, w, nullptr, y), core::Error);
  CHECK_THROWS_AS(product->forward(x, w, nullptr, narrow), core::Error);
  CHECK_THROWS_AS(product->backward_input(shorter, w, x, Write::replace), core::Error);
  CHECK_THROWS_AS(product->backward_weight(y, shorter, w, nullptr, Write::replace), core::Error);
}

TEST_CASE("products are tuned, a library's or portable") {
  CHECK(ops::make_matrix_product("tuned")->name() == ops::make_matrix_product()->name());
  const std::string portable = ops::make_matrix_product("portable")->name();
  std::string library;
  try {
    library = ops::make_matrix_product("library")->name();
  } catch (const core::Error& error) {
    CHECK(std::string(error.what()).find("no matrix product \"library\"") != std::string::npos);
    SKIP("this build has no library for products");
  }
  CHECK(library != portable);
  if (!core::is_gpu_build()) CHECK(library != ops::make_matrix_product("native")->name());
}
