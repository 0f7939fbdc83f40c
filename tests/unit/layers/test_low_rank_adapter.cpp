// Low-rank adapters of joined linear layers against plain loops in double precision, with dropout against differences,
// and what layers ask for in their names and their plans.
#include "adapted_layers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <vector>

using namespace bert_hpc;
using test::adapter_scale;
using test::in;
using test::Matrix;
using test::out;
using test::rank;
using test::rows;

namespace {

using Layers = test::AdaptedLayers;

// Magnitudes below 1: sums of `in` products with weights of up to 1 + 1.75 · 3, each rounded by 2^-24, a few times.
constexpr double tolerance = 1e-4;

}  // namespace

TEST_CASE("An adapter computes what its weights merged into the layer's would", "[layers][low_rank]") {
  Layers l({});
  const layers::Engine engine = l.engine();
  const Matrix x = Matrix::random(rows, in, 2), d_y = Matrix::random(rows, 3 * out, 3);
  Matrix y(rows, 3 * out), d_x(rows, in);
  l.layer.forward(engine, x, y, l.of());
  CHECK(test::largest_difference(y, [&](std::int64_t r, std::int64_t o) {
          double sum = l.value(o < out ? "q.bias" : o < 2 * out ? "k.bias" : "v.bias")(0, o % out);
          for (std::int64_t i = 0; i < in; ++i) sum += l.whole(o, i) * x(r, i);
          return sum;
        }) < tolerance);
  l.layer.backward_input(engine, d_y, d_x, ops::Write::replace, l.of());
  CHECK(test::largest_difference(d_x, [&](std::int64_t r, std::int64_t i) {
          double sum = 0;
          for (std::int64_t o = 0; o < 3 * out; ++o) sum += l.whole(o, i) * d_y(r, o);
          return sum;
        }) < tolerance);
  l.layer.backward_weight(engine, d_y, x, l.of());
  for (const std::string name : {"q", "v"}) {
    const std::int64_t begin = name == "q" ? 0 : 2 * out;
    CHECK(test::largest_difference(l.gradient(layers::adapter_a(name)), [&](std::int64_t k, std::int64_t i) {
            double sum = 0;
            for (std::int64_t r = 0; r < rows; ++r) {
              for (std::int64_t o = 0; o < out; ++o) {
                sum += static_cast<double>(adapter_scale) * d_y(r, begin + o) * l.value(layers::adapter_b(name))(k, o) *
                       x(r, i);
              }
            }
            return sum;
          }) < tolerance);
    CHECK(test::largest_difference(l.gradient(layers::adapter_b(name)), [&](std::int64_t k, std::int64_t o) {
            double sum = 0;
            for (std::int64_t r = 0; r < rows; ++r) {
              for (std::int64_t i = 0; i < in; ++i) {
                sum += static_cast<double>(adapter_scale) * d_y(r, begin + o) * l.value(layers::adapter_a(name))(k, i) *
                       x(r, i);
              }
            }
            return sum;
          }) < tolerance);
  }
}

TEST_CASE("The gradients of an adapter with dropout are those of what it computes", "[layers][low_rank]") {
  Layers l({.dropout = 0.3f});
  const layers::Engine engine = l.engine();
  Matrix x = Matrix::random(rows, in, 2);
  const Matrix d_y = Matrix::random(rows, 3 * out, 3);
  Matrix y(rows, 3 * out), d_x(rows, in);
  const auto objective = [&] { return l.objective(x, d_y); };
  objective();  // gradients read what a forward pass keeps
  l.layer.backward_input(engine, d_y, d_x, ops::Write::replace, l.of());
  l.layer.backward_weight(engine, d_y, x, l.of());
  // The objective is linear in each of x, a and b̂: a difference over 2·step is the derivative, but for rounding.
  const auto derivative = [&](const auto& at) { return test::slope(at, objective); };
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < in; ++i)
      CHECK(std::abs(derivative([&]() -> float& { return x(r, i); }) - d_x(r, i)) < 10 * tolerance);
  }
  for (const std::string name : {"lora_A", "lora_B"}) {
    const int slice = l.store.find("v." + name + ".weight");
    const core::Tensor<float> values = l.store.change_value(slice), gradient = l.store.gradient(slice);
    for (std::int64_t i = 0; i < values.columns; ++i) {
      CHECK(std::abs(derivative([&]() -> float& { return values(1, i); }) - gradient(1, i)) < 10 * tolerance);
    }
  }
  // Dropout is there: without it the result is another one, and an evaluation has none.
  l.layer.forward(engine, x, y, l.of());
  const auto without = [&](std::int64_t r, std::int64_t o) {
    double sum = l.value(o < out ? "q.bias" : o < 2 * out ? "k.bias" : "v.bias")(0, o % out);
    for (std::int64_t i = 0; i < in; ++i) sum += l.whole(o, i) * x(r, i);
    return sum;
  };
  CHECK(test::largest_difference(y, without) > 0.1);
  l.context.training = false;
  l.layer.forward(engine, x, y, l.of());
  CHECK(test::largest_difference(y, without) < tolerance);
}

TEST_CASE("A frozen adapter has no gradients, and a layer plans the products of its adapters", "[layers][low_rank]") {
  Layers l({});
  std::vector<layers::LinearWeight> weights;
  l.layer.list_weights(true, weights);
  REQUIRE(weights.size() == 4);
  CHECK(weights[1].name == "q.lora_A.weight");
  CHECK(weights[1].extents({.tokens = 9, .selected = 4}) == ops::ProductExtents{.rows = 4, .in = in, .out = 2 * rank});
  CHECK(weights[1].scratch_columns.empty());
  CHECK(weights[3].extents({.tokens = 9, .selected = 4}) ==
        ops::ProductExtents{.rows = 4, .in = out, .out = rank, .series = 2});
  CHECK_FALSE(layers::AdapterSettings{.rank = 4}.any());
  CHECK_FALSE(layers::AdapterSettings{.layers = {"q"}}.any());
}
