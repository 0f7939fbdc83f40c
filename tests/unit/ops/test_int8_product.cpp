// Products of 8-bit integers against sums in double: exactly where quantization loses nothing, and
// within its error elsewhere.
#include <omp.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "support/emulated_bytes.hpp"
#include "support/memory_taken.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using core::DataType;
using core::ParameterStore;
using ops::Activation;
using test::Matrix;
using test::StoredMatrix;

namespace {

struct Extents {
  std::int64_t rows, in, out, padding;
};

// Odd sizes around words, tiles, blocks of rows, of columns and of words along the length.
Extents some_extents() {
  return GENERATE(Extents{1, 1, 1, 0}, Extents{0, 5, 3, 1}, Extents{7, 17, 15, 1}, Extents{13, 130, 33, 0},
                  Extents{97, 66, 129, 7}, Extents{193, 35, 300, 0}, Extents{400, 64, 48, 3}, Extents{5, 1543, 270, 2},
                  Extents{70, 3100, 31, 0});
}

const ops::cpu::Int8Kernels& some_kernels() {
  return *test::int8_kernels()[static_cast<std::size_t>(GENERATE(0, 1, 2, 3)) % test::int8_kernels().size()];
}

/// One layer w (out, in) with a bias, and its product.
struct Layer {
  Layer(const ops::cpu::Int8Kernels& kernels, const Extents& extents)
      : e(extents),
        x(DataType::fp32, e.rows, e.in, e.padding),
        w(e.out, e.in),
        b(1, e.out),
        store({{"weight", {e.out, e.in}}, {"bias", {e.out}, false}}, ParameterStore::Arenas::values),
        product(ops::cpu::make_int8_product(ops::make_matrix_product("portable"), kernels)) {
    const core::Tensor<const float> weights[] = {weight()};
    product->quantize(store, weights);
    product->reserve({e.rows, e.in, e.out});
  }
  core::Tensor<const float> weight() const { return store.value(0); }
  const float* bias() const { return store.value(1).data; }

  void set_random(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < e.rows; ++i) {
      for (std::int64_t l = 0; l < e.in; ++l) x.set(i, l, 1.5f + 2.0f * normal(random));
    }
    set_weights([&](std::int64_t, std::int64_t) { return 0.05f * normal(random); });
  }
  template <class Value>
  void set_weights(const Value& value) {
    for (std::int64_t j = 0; j < e.out; ++j) {
      for (std::int64_t l = 0; l < e.in; ++l) w(j, l) = value(j, l);
      b(0, j) = static_cast<float>(j % 7) - 3.0f;
    }
    put();
  }
  /// The weights and the bias become those of the store.
  void put() {
    for (const auto& [slice, from] : {std::pair(0, &w), std::pair(1, &b)}) {
      const core::Tensor<float> to = store.change_value(slice);
      core::copy_on_device(from->tensor().data, to.data, static_cast<std::size_t>(to.size()) * sizeof(float));
    }
  }
  StoredMatrix forward() {
    StoredMatrix y(DataType::fp32, e.rows, e.out, e.padding);
    product->forward(x, weight(), bias(), y);
    CHECK(y.padding_untouched());
    return y;
  }

  Extents e;
  StoredMatrix x;
  Matrix w, b;
  ParameterStore store;
  std::unique_ptr<ops::Int8Product> product;
};

}  // namespace

TEST_CASE("an 8-bit product is exact where quantization is") {
  Layer layer(some_kernels(), some_extents());
  const Extents& e = layer.e;
  // Each row of x has a range of 255 that includes 0, and each row of w a largest magnitude of 127: all scales are 1.
  // Sums of whole numbers below 2^24 are exact, so products of the others are small.
  const auto small = [&](std::int64_t l) { return l % (1 + e.in / 500) == 0; };
  for (std::int64_t i = 0; i < e.rows; ++i) {
    const std::int64_t low = -(i * 37 % 256);
    for (std::int64_t l = 0; l < e.in; ++l) {
      const bool first = l == 0, second = l == e.in - 1;
      const std::int64_t value = first    ? (low == 0 || e.in > 1 ? low + 255 : low)
                                 : second ? low
                                          : low + (i * 91 + l * 53) % 256;
      layer.x.set(i, l, static_cast<float>(value));
    }
    // A single number is quantized as one end of a range from 0 to it.
    if (e.in == 1) layer.x.set(i, 0, 255.0f);
  }
  layer.set_weights([&](std::int64_t j, std::int64_t l) {
    if (l == j % e.in) return j % 2 == 0 ? 127.0f : -127.0f;
    return small(l) ? static_cast<float>((j * 29 + l * 17) % 255 - 127) : 0.0f;
  });
  const StoredMatrix y = layer.forward();
  const std::vector<float> x = layer.x.floats();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < e.rows; ++i) {
    for (std::int64_t j = 0; j < e.out; ++j) {
      const float* const w = layer.w.host().row(j);
      double expected = layer.b(0, j);
      for (std::int64_t l = 0; l < e.in; ++l)
        expected += static_cast<double>(x[static_cast<std::size_t>(i * e.in + l)]) * w[l];
      wrong += y(i, j) == static_cast<float>(expected) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("an 8-bit product has the error of its quantization") {
  Layer layer(some_kernels(), some_extents());
  const Extents& e = layer.e;
  layer.set_random(1);
  const StoredMatrix y = layer.forward();
  const std::vector<float> values = layer.x.floats();
  double worst = 0;
  for (std::int64_t i = 0; i < e.rows; ++i) {
    const float* const x = values.data() + i * e.in;
    const double s =
        (std::max(0.0f, *std::max_element(x, x + e.in)) - std::min(0.0f, *std::min_element(x, x + e.in))) / 255.0;
    for (std::int64_t j = 0; j < e.out; ++j) {
      const float* const w = layer.w.host().row(j);
      const auto [least, most] = std::minmax_element(w, w + e.in);
      const double t = std::max(std::abs(*least), std::abs(*most)) / 127.0;
      double expected = layer.b(0, j), squares = 0;
      for (std::int64_t l = 0; l < e.in; ++l) {
        expected += static_cast<double>(x[l]) * w[l];
        squares += (x[l] * x[l] * t * t + w[l] * w[l] * s * s) / 12 + s * s * t * t / 144;
      }
      // Errors of numbers are uniform in half a step and add up like a random walk, of which six deviations are
      // allowed; that of the zero, which all terms share, is none, as it is a whole number. Then roundings of floats.
      const double bound = 6 * std::sqrt(squares) + 1e-6 * (1 + std::abs(expected));
      worst = std::max(worst, std::abs(y(i, j) - expected) / bound);
    }
  }
  CHECK(worst < 1);
}

TEST_CASE("a row of an 8-bit product depends on its own row alone") {
  Layer layer(some_kernels(), {193, 70, 90, 0});
  layer.set_random(2);
  const StoredMatrix all = layer.forward();
  for (std::int64_t i = 0; i < layer.e.rows; ++i) {
    if (i != 100) layer.x.set(i, i % 70, 1e4f);
  }
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const StoredMatrix others = layer.forward();
  omp_set_num_threads(threads);
  std::int64_t same = 0;
  for (std::int64_t j = 0; j < layer.e.out; ++j) {
    CHECK(others(100, j) == all(100, j));
    same += others(99, j) == all(99, j) ? 1 : 0;
  }
  CHECK(same < layer.e.out);
}

TEST_CASE("numbers that are not finite stay in their row or output of an 8-bit product") {
  Layer layer(some_kernels(), {5, 40, 37, 0});
  layer.set_random(3);
  const StoredMatrix before = layer.forward();
  const float bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(), -3.3e38f);
  layer.x.set(2, 39, bad);
  layer.x.set(2, 0, 3.3e38f);  // beside −3.3e38 the range overflows
  layer.w(36, 1) = std::numeric_limits<float>::infinity();
  layer.put();
  const StoredMatrix y = layer.forward();
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t j = 0; j < 37; ++j) {
      if (i == 2 || j == 36) {
        CHECK(!std::isfinite(y(i, j)));
      } else {
        CHECK(y(i, j) == before(i, j));
      }
    }
  }
}

TEST_CASE("rows and weights of zeros give the bias") {
  Layer layer(some_kernels(), {4, 40, 37, 0});
  layer.set_random(4);
  for (std::int64_t l = 0; l < 40; ++l) {
    layer.x.set(1, l, 0.0f);
    layer.x.set(2, l, l % 2 == 0 ? 1e-38f : -1e-40f);
    layer.w(5, l) = 0.0f;
  }
  layer.put();
  const StoredMatrix y = layer.forward();
  for (std::int64_t j = 0; j < 37; ++j) {
    CHECK(y(1, j) == layer.b(0, j));
    CHECK(y(2, j) == layer.b(0, j));
  }
  CHECK(y(0, 5) == layer.b(0, 5));
}

TEST_CASE("epilogues of an 8-bit product are those of its plain result") {
  Layer layer(some_kernels(), {23, 40, 300, 1});
  layer.set_random(5);
  const Activation activation = GENERATE(Activation::gelu, Activation::silu, Activation::gelu_tanh);
  const StoredMatrix plain = layer.forward();
  StoredMatrix pre(DataType::fp32, 23, 300, 2), y(DataType::fp32, 23, 300, 1), expected(DataType::fp32, 23, 300, 1);
  layer.product->forward(layer.x, layer.weight(), {layer.bias(), activation, pre}, y);
  CHECK(pre.padding_untouched());
  CHECK(y.padding_untouched());
  StoredMatrix before = pre;
  ops::activate({layer.bias(), activation, before}, expected);
  for (std::int64_t i = 0; i < 23; ++i) {
    for (std::int64_t j = 0; j < 300; ++j) {
      CHECK(pre(i, j) == plain(i, j));
      CHECK(std::abs(y(i, j) - expected(i, j)) <= 1e-6f * (1 + std::abs(expected(i, j))));
    }
  }
}

TEST_CASE("8-bit weights follow changes of the parameters; other weights are not quantized") {
  Layer layer(some_kernels(), {9, 40, 37, 0});
  layer.set_random(6);
  const StoredMatrix first = layer.forward();
  layer.w(3, 3) += 1.0f;
  layer.put();
  const StoredMatrix second = layer.forward();
  CHECK(first(0, 3) != second(0, 3));
  CHECK(first(0, 4) == second(0, 4));

  const StoredMatrix w = StoredMatrix::random(DataType::fp32, 6, 40, 7);
  const core::ConstMatrix view = w.view();
  const core::Tensor<const float> other(static_cast<const float*>(view.data), 6, 40);
  const auto inner = ops::make_matrix_product("portable");
  inner->reserve({9, 40, 40});
  StoredMatrix y(DataType::fp32, 9, 6), expected(DataType::fp32, 9, 6);
  // Some rows of a quantized weight are another weight.
  for (const core::Tensor<const float>& weight : {other, layer.weight().row_range(0, 6)}) {
    layer.product->forward(layer.x, weight, {}, y);
    inner->forward(layer.x, weight, {}, expected);
    CHECK(y.same_bits(expected));
  }
}

TEST_CASE("8-bit weights of a layout alone take no memory") {
  const ParameterStore layout({{"first", {64, 64}}, {"second", {8192, 8192}}}, ParameterStore::Arenas::none);
  const auto product = ops::cpu::make_int8_product(ops::make_matrix_product("portable"), some_kernels());
  const core::Tensor<const float> weights[] = {layout.value(0), layout.value(1)};
  CHECK(test::memory_taken([&] { product->quantize(layout, weights); }) < 8192 * 8192 / 8);
  CHECK(product->quantize(layout, weights) >= 8192 * 8192);
}

TEST_CASE("8-bit products are of applied models") {
  Layer layer(some_kernels(), {9, 40, 37, 0});
  StoredMatrix d_y(DataType::fp32, 9, 37), d_x(DataType::fp32, 9, 40);
  CHECK_THROWS_AS(layer.product->backward_input(d_y, layer.weight(), d_x, ops::Write::replace), core::Error);
}
