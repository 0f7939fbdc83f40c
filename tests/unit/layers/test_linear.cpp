// A linear layer against plain loops in double precision, with and without a bias, alone and joined with others; and
// which product computes it, and how it writes its gradient.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/layers/linear.hpp"
#include "support/recorded_product.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

constexpr std::int64_t rows = 5, in = 16, out = 16;
constexpr double tolerance = 1e-5;

/// Two layers, the second directly after the first in the arena, with products of their own.
struct Layers {
  Layers()
      : store(
            {
                {"a.weight", {out, in}},
                {"b.weight", {out, in}, true, true},
                {"a.bias", {out}, false},
                {"b.bias", {out}, false, true},
            },
            core::ParameterStore::Arenas::with_gradients, {}, arenas.memory()),
        products(ops::make_matrix_product(test::independent_products())),
        attention(ops::make_attention()) {
    const Matrix random = Matrix::random(1, store.arena_size(), 1);
    const std::span<float> values = store.change_values();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random(0, static_cast<std::int64_t>(i));
    products.reserve({.rows = rows, .in = in, .out = 2 * out});
  }

  double weight(std::int64_t o, std::int64_t i) const {
    return o < out ? store.value(0)(o, i) : store.value(1)(o - out, i);
  }
  double bias(std::int64_t o) const { return o < out ? store.value(2)(0, o) : store.value(3)(0, o - out); }
  layers::Engine engine() { return {products, *attention}; }

  test::Arenas arenas;
  core::ParameterStore store;
  test::RecordedProduct products;
  std::unique_ptr<ops::Attention> attention;
};

auto product(const Layers& layers, const Matrix& x, bool biased) {
  return [&layers, &x, biased](std::int64_t r, std::int64_t o) {
    double sum = biased ? layers.bias(o) : 0.0;
    for (std::int64_t i = 0; i < in; ++i) sum += static_cast<double>(x(r, i)) * layers.weight(o, i);
    return sum;
  };
}

}  // namespace

TEST_CASE("A linear layer adds its bias where it has one and is asked to", "[layers][linear]") {
  Layers l;
  const layers::Engine engine = l.engine();
  const Matrix x = Matrix::random(rows, in, 2);
  Matrix y(rows, out);
  const layers::Linear biased(l.store, {.weight = "a.weight", .bias = "a.bias"});
  const layers::Linear bare(l.store, {.weight = "a.weight"});
  biased.forward(engine, x, y);
  CHECK(test::largest_difference(y, product(l, x, true)) < tolerance);
  biased.forward_without_bias(engine, x, y);
  CHECK(test::largest_difference(y, product(l, x, false)) < tolerance);
  bare.forward(engine, x, y);
  CHECK(test::largest_difference(y, product(l, x, false)) < tolerance);
  CHECK(biased.bias() == l.store.value(2).data);
  CHECK(bare.bias() == nullptr);
  CHECK(bare.bias_gradient() == nullptr);
  CHECK_THROWS_AS(layers::Linear(l.store, {.weight = "c.weight"}), core::Error);
}

TEST_CASE("Joined linear layers are one layer with more outputs", "[layers][linear]") {
  Layers l;
  const layers::Engine engine = l.engine();
  const Matrix x = Matrix::random(rows, in, 2), d_y = Matrix::random(rows, 2 * out, 3);
  const layers::Linear joined(l.store, {.weight = "a.weight", .bias = "a.bias", .joined = 2});
  Matrix y(rows, 2 * out), d_x(rows, in);
  joined.forward(engine, x, y);
  CHECK(test::largest_difference(y, product(l, x, true)) < tolerance);
  joined.backward_input(engine, d_y, d_x, ops::Write::replace);
  CHECK(test::largest_difference(d_x, [&](std::int64_t r, std::int64_t i) {
          double sum = 0.0;
          for (std::int64_t o = 0; o < 2 * out; ++o) sum += static_cast<double>(d_y(r, o)) * l.weight(o, i);
          return sum;
        }) < tolerance);
  joined.backward_weight(engine, d_y, x);
  for (std::int64_t part = 0; part < 2; ++part) {
    CHECK(test::largest_difference(l.store.gradient(static_cast<int>(part)), [&](std::int64_t o, std::int64_t i) {
            double sum = 0.0;
            for (std::int64_t r = 0; r < rows; ++r) sum += static_cast<double>(d_y(r, part * out + o)) * x(r, i);
            return sum;
          }) < tolerance);
    CHECK(test::largest_difference(l.store.gradient(static_cast<int>(2 + part)), [&](std::int64_t, std::int64_t o) {
            double sum = 0.0;
            for (std::int64_t r = 0; r < rows; ++r) sum += d_y(r, part * out + o);
            return sum;
          }) < tolerance);
  }
  const layers::LinearWeight weight = joined.weight(true);
  CHECK(weight.name == "a.weight");
  CHECK(weight.extents({.tokens = 9, .selected = 4}) == ops::ProductExtents{.rows = 4, .in = in, .out = 2 * out});
}

TEST_CASE("A layer of the encoder may replace its gradient, another one adds to it", "[layers][linear]") {
  Layers l;
  layers::Engine engine = l.engine();
  engine.weight_gradients = ops::Write::replace;
  const Matrix x = Matrix::random(rows, in, 2), d_y = Matrix::random(rows, out, 3);
  for (const bool in_encoder : {true, false}) {
    const layers::Linear layer(l.store, {.weight = "a.weight", .bias = "a.bias", .in_encoder = in_encoder});
    for (float& gradient : l.store.gradients()) gradient = 1.0f;
    layer.backward_weight_without_bias(engine, d_y, x);
    CHECK(test::largest_difference(l.store.gradient(0), [&](std::int64_t o, std::int64_t i) {
            double sum = in_encoder ? 0.0 : 1.0;
            for (std::int64_t r = 0; r < rows; ++r) sum += static_cast<double>(d_y(r, o)) * x(r, i);
            return sum;
          }) < tolerance);
    CHECK(test::largest_difference(l.store.gradient(2), [](std::int64_t, std::int64_t) { return 1.0; }) == 0.0);
  }
}

TEST_CASE("A frozen weight needs no product for its gradient, a frozen bias no sums", "[layers][linear]") {
  const Matrix x = Matrix::random(rows, in, 2), d_y = Matrix::random(rows, out, 3);
  const auto attention = ops::make_attention();
  for (const std::string frozen : {"weight", "bias", "both", "none"}) {
    std::vector<core::ParameterSpec> specs = {{"weight", {out, in}}, {"bias", {out}, false}};
    for (core::ParameterSpec& spec : specs) spec.trainable = spec.name != frozen && frozen != "both";
    test::Arenas arenas;
    const core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients, {}, arenas.memory());
    test::RecordedProduct products(ops::make_matrix_product(test::independent_products()));
    products.reserve({.rows = rows, .in = in, .out = out});
    const layers::Engine engine{products, *attention};
    const layers::Linear layer(store, {.weight = "weight", .bias = "bias"});
    layer.backward_weight(engine, d_y, x);
    const bool weight = frozen == "bias" || frozen == "none", bias = frozen == "weight" || frozen == "none";
    CHECK(products.requested().empty() == !weight);
    CHECK((layer.bias_gradient() != nullptr) == bias);
    if (weight) {
      CHECK(test::largest_difference(store.gradient(store.find("weight")), [&](std::int64_t o, std::int64_t i) {
              double sum = 0.0;
              for (std::int64_t r = 0; r < rows; ++r) sum += static_cast<double>(d_y(r, o)) * x(r, i);
              return sum;
            }) < tolerance);
    }
    if (bias) {
      CHECK(test::largest_difference(store.gradient(store.find("bias")), [&](std::int64_t, std::int64_t o) {
              double sum = 0.0;
              for (std::int64_t r = 0; r < rows; ++r) sum += d_y(r, o);
              return sum;
            }) < tolerance);
    }
  }
}

TEST_CASE("Only layers of the encoder compute in FP8", "[layers][linear]") {
  Layers l;
  const auto plain = ops::make_matrix_product(test::independent_products(), {.compute = core::DataType::bf16});
  plain->reserve({.rows = rows, .in = in, .out = out});
  const layers::Linear encoder(l.store, {.weight = "a.weight"});
  const layers::Linear head(l.store, {.weight = "a.weight", .in_encoder = false});
  const layers::LinearWeight weight = encoder.weight(false);
  test::RecordedProduct rounded(ops::make_matrix_product("", {.compute = core::DataType::bf16}));
  rounded.reserve({.rows = rows, .in = in, .out = out});
  const auto fp8 = ops::make_fp8_product(rounded, {{weight.slice, weight.name, weight.weights}}, {.portable = true});
  fp8->reserve({.rows = rows, .in = in, .out = out});
  const layers::Engine engine{*plain, *l.attention, fp8.get()};
  const test::StoredMatrix x = test::StoredMatrix::random(core::DataType::bf16, rows, in, 4);
  test::StoredMatrix y(core::DataType::bf16, rows, out);
  head.forward(engine, x, y);
  CHECK(rounded.requested().empty());
  encoder.forward(engine, x, y);  // before anything is known of magnitudes, FP8 leaves the product to bf16
  CHECK(rounded.requested().size() == 1);
}
