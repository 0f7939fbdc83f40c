// Adapters with magnitudes (DoRA) of joined linear layers against plain loops in double precision, with dropout against
// differences, and what they begin with.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "adapted_layers.hpp"

using namespace bert_hpc;
using test::adapter_scale;
using test::in;
using test::Matrix;
using test::out;
using test::rank;
using test::rows;

namespace {

using Layers = test::AdaptedLayers;

// Sums of `in` products with weights of up to 1 + 1.75 · 3, times factors of up to 1, each rounded by 2^-24, a few
// times.
constexpr double tolerance = 1e-4;

std::string layer_of(std::int64_t o) {
  return o < out ? "q" : o < 2 * out ? "k" : "v";
}

double norm_of(const Layers& l, std::int64_t o) {
  double squares = 0;
  for (std::int64_t i = 0; i < in; ++i) squares += l.whole(o, i) * l.whole(o, i);
  return std::sqrt(squares);
}

/// g of each of the joined layers' rows.
std::vector<double> factors_of(const Layers& l) {
  std::vector<double> factors(3 * out, 1.0);
  for (std::int64_t o = 0; o < 3 * out; ++o) {
    if (layer_of(o) == "k") continue;
    factors[static_cast<std::size_t>(o)] = l.value(layers::adapter_magnitude(layer_of(o)))(0, o % out) / norm_of(l, o);
  }
  return factors;
}

double bias_of(const Layers& l, std::int64_t o) {
  return l.value(layer_of(o) + ".bias")(0, o % out);
}

/// Of x·(w + s·b̂ᵀ·a)ᵀ.
double inner(const Layers& l, const Matrix& x, std::int64_t r, std::int64_t o) {
  double sum = 0;
  for (std::int64_t i = 0; i < in; ++i) sum += l.whole(o, i) * x(r, i);
  return sum;
}

}  // namespace

TEST_CASE("With magnitudes a layer's rows have them as their norms", "[layers][low_rank]") {
  Layers l({.magnitudes = true});
  const layers::Engine engine = l.engine();
  const std::vector<double> g = factors_of(l);
  const auto factor = [&g](std::int64_t o) { return g[static_cast<std::size_t>(o)]; };
  const Matrix x = Matrix::random(rows, in, 2), d_y = Matrix::random(rows, 3 * out, 3);
  Matrix y(rows, 3 * out), d_x(rows, in);
  const auto without_bias = [&](std::int64_t r, std::int64_t o) { return factor(o) * inner(l, x, r, o); };
  l.layer.forward_without_bias(engine, x, y, l.of());
  CHECK(test::largest_difference(y, without_bias) < tolerance);
  l.layer.forward(engine, x, y, l.of());
  CHECK(test::largest_difference(
            y, [&](std::int64_t r, std::int64_t o) { return without_bias(r, o) + bias_of(l, o); }) < tolerance);
  const auto of_x = [&](std::int64_t r, std::int64_t i) {
    double sum = 0;
    for (std::int64_t o = 0; o < 3 * out; ++o) sum += factor(o) * l.whole(o, i) * d_y(r, o);
    return sum;
  };
  l.layer.backward_input(engine, d_y, d_x, ops::Write::replace, l.of());
  CHECK(test::largest_difference(d_x, of_x) < tolerance);
  l.layer.backward_input(engine, d_y, d_x, ops::Write::accumulate, l.of());
  CHECK(test::largest_difference(d_x, [&](std::int64_t r, std::int64_t i) { return 2 * of_x(r, i); }) < 2 * tolerance);
}

TEST_CASE("The gradients of a, b and the magnitudes take the norms as constants", "[layers][low_rank]") {
  Layers l({.magnitudes = true});
  const std::vector<double> g = factors_of(l);
  const Matrix x = Matrix::random(rows, in, 2), d_y = Matrix::random(rows, 3 * out, 3);
  Matrix d_x(rows, in);
  l.objective(x, d_y);
  l.layer.backward_input(l.engine(), d_y, d_x, ops::Write::replace, l.of());
  l.layer.backward_weight(l.engine(), d_y, x, l.of());
  l.layer.backward_weight(l.engine(), d_y, x, l.of());  // adds
  for (const std::string name : {"q", "v"}) {
    const std::int64_t begin = name == "q" ? 0 : 2 * out;
    const core::Tensor<const float> a = l.value(layers::adapter_a(name)), b = l.value(layers::adapter_b(name));
    const auto d_u = [&](std::int64_t r, std::int64_t o) {
      return 2 * g[static_cast<std::size_t>(begin + o)] * d_y(r, begin + o) * static_cast<double>(adapter_scale);
    };
    CHECK(test::largest_difference(l.gradient(layers::adapter_a(name)), [&](std::int64_t k, std::int64_t i) {
            double sum = 0;
            for (std::int64_t r = 0; r < rows; ++r) {
              for (std::int64_t o = 0; o < out; ++o) sum += d_u(r, o) * b(k, o) * x(r, i);
            }
            return sum;
          }) < 2 * tolerance);
    CHECK(test::largest_difference(l.gradient(layers::adapter_b(name)), [&](std::int64_t k, std::int64_t o) {
            double sum = 0;
            for (std::int64_t r = 0; r < rows; ++r) {
              for (std::int64_t i = 0; i < in; ++i) sum += d_u(r, o) * a(k, i) * x(r, i);
            }
            return sum;
          }) < 2 * tolerance);
    CHECK(test::largest_difference(l.gradient(layers::adapter_magnitude(name)), [&](std::int64_t, std::int64_t o) {
            double sum = 0;
            for (std::int64_t r = 0; r < rows; ++r) sum += d_y(r, begin + o) * inner(l, x, r, begin + o);
            return 2 * sum / norm_of(l, begin + o);
          }) < 2 * tolerance);
  }
}

TEST_CASE("With dropout the gradients are those of what the layer computes", "[layers][low_rank]") {
  Layers l({.dropout = 0.3f, .magnitudes = true});
  const layers::Engine engine = l.engine();
  Matrix x = Matrix::random(rows, in, 2);
  const Matrix d_y = Matrix::random(rows, 3 * out, 3);
  Matrix d_x(rows, in);
  const auto objective = [&] { return l.objective(x, d_y); };
  objective();  // gradients read what a forward pass keeps
  l.layer.backward_input(engine, d_y, d_x, ops::Write::replace, l.of());
  l.layer.backward_weight(engine, d_y, x, l.of());
  // The objective is linear in each of x, a, b̂ and m while the norms stay: a difference is the derivative, but for
  // rounding.
  const auto derivative = [&](const auto& at) { return test::slope(at, objective); };
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < in; ++i)
      CHECK(std::abs(derivative([&]() -> float& { return x(r, i); }) - d_x(r, i)) < 10 * tolerance);
  }
  // The store does not count the changes to a and b̂, so that the norms stay.
  for (const std::string name : {"lora_A", "lora_B"}) {
    const int slice = l.store.find("v." + name + ".weight");
    const core::Tensor<float> values = l.store.change_value(slice), gradient = l.store.gradient(slice);
    objective();
    for (std::int64_t i = 0; i < values.columns; ++i) {
      CHECK(std::abs(derivative([&]() -> float& { return values(1, i); }) - gradient(1, i)) < 10 * tolerance);
    }
  }
  const int slice = l.store.find(layers::adapter_magnitude("q"));
  for (std::int64_t o = 0; o < out; ++o) {
    l.store.change_value(slice)(0, o) += 1;
    const double high = objective();
    l.store.change_value(slice)(0, o) -= 2;
    const double low = objective();
    l.store.change_value(slice)(0, o) += 1;
    CHECK(std::abs((high - low) / 2 - l.store.gradient(slice)(0, o)) < 10 * tolerance);
  }
}

TEST_CASE("With dropout the base layer reads x, and what magnitudes and adapters add reads what is left of it",
          "[layers][low_rank]") {
  Layers l({.dropout = 0.3f, .magnitudes = true}), plain({.dropout = 0.3f});
  const std::vector<double> g = factors_of(l);
  const Matrix x = Matrix::random(rows, in, 2);
  Matrix y(rows, 3 * out), of_adapter(rows, 3 * out), of_kept(rows, 3 * out);
  l.layer.forward(l.engine(), x, y, l.of());
  // x' from an adapter whose a and b̂ let it pass: with a = e_i and b̂ = e_0 an output is s·x'_i beside the layer's.
  Matrix kept(rows, in);
  const auto fill_pass = [&](std::int64_t i) {
    const core::Tensor<float> a = plain.store.change_value(plain.store.find(layers::adapter_a("q"))),
                              b = plain.store.change_value(plain.store.find(layers::adapter_b("q"))),
                              w = plain.store.change_value(plain.store.find("q.weight"));
    for (std::int64_t j = 0; j < in; ++j) {
      for (std::int64_t k = 0; k < rank; ++k) a(k, j) = k == 0 && j == i ? 1.0f : 0.0f;
      for (std::int64_t o = 0; o < out; ++o) w(o, j) = 0;
    }
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t k = 0; k < rank; ++k) b(k, o) = k == 0 && o == 0 ? 1.0f : 0.0f;
    }
  };
  for (std::int64_t i = 0; i < in; ++i) {
    fill_pass(i);
    plain.layer.forward_without_bias(plain.engine(), x, of_adapter, plain.of());
    for (std::int64_t r = 0; r < rows; ++r) kept(r, i) = of_adapter(r, 0) / adapter_scale;
  }
  const auto expected = [&](std::int64_t r, std::int64_t o) {
    const double factor = g[static_cast<std::size_t>(o)];
    double base = 0, base_of_kept = 0;
    for (std::int64_t i = 0; i < in; ++i) {
      const double w = l.value(layer_of(o) + ".weight")(o % out, i);
      base += w * x(r, i);
      base_of_kept += w * kept(r, i);
    }
    const double added = inner(l, kept, r, o) - base_of_kept;
    return base + bias_of(l, o) + (factor - 1) * base_of_kept + factor * added;
  };
  CHECK(test::largest_difference(y, expected) < tolerance);
  // An evaluation has no dropout.
  l.context.training = false;
  l.layer.forward(l.engine(), x, y, l.of());
  CHECK(test::largest_difference(y, [&](std::int64_t r, std::int64_t o) {
          return g[static_cast<std::size_t>(o)] * inner(l, x, r, o) + bias_of(l, o);
        }) < tolerance);
}

TEST_CASE("Magnitudes begin as norms, with the outputs of the layer alone", "[layers][low_rank]") {
  Layers l({.magnitudes = true}), plain({});
  for (Layers* const both : {&l, &plain}) {
    for (const std::string name : {"q", "v"}) {
      const core::Tensor<float> b = both->store.change_value(both->store.find(layers::adapter_b(name)));
      for (std::int64_t i = 0; i < b.size(); ++i) b.data[i] = 0;
    }
  }
  const std::span<const float> from = l.store.values();
  const std::span<float> to = plain.store.change_values();
  for (const core::ParameterSlice& slice : plain.store.slices()) {
    const core::ParameterSlice& same = l.store.slices()[static_cast<std::size_t>(l.store.find(slice.name))];
    for (std::int64_t i = 0; i < slice.size; ++i) {
      to[static_cast<std::size_t>(slice.offset + i)] = from[static_cast<std::size_t>(same.offset + i)];
    }
  }
  layers::set_magnitudes(l.store);
  CHECK(test::largest_difference(l.value(layers::adapter_magnitude("v")),
                                 [&l](std::int64_t, std::int64_t o) { return norm_of(l, 2 * out + o); }) < 1e-6);
  const Matrix x = Matrix::random(rows, in, 2);
  Matrix y(rows, 3 * out), expected(rows, 3 * out);
  l.layer.forward_without_bias(l.engine(), x, y, l.of());
  plain.layer.forward_without_bias(plain.engine(), x, expected, plain.of());
  CHECK(test::bits_of(y) == test::bits_of(expected));
}

TEST_CASE("A layer plans the products and the scratch memory of magnitudes", "[layers][low_rank]") {
  const Layers l({.dropout = 0.1f, .magnitudes = true});
  std::vector<layers::LinearWeight> weights;
  l.layer.list_weights(true, weights);
  REQUIRE(weights.size() == 6);
  CHECK(weights[1].scratch_columns == std::vector<std::int64_t>{in, 3 * out});
  CHECK(weights[3].name == "q.weight");
  CHECK(weights[5].extents({.tokens = 9, .selected = 4}) == ops::ProductExtents{.rows = 4, .in = in, .out = out});
  CHECK(l.factors.bytes() == 2 * 3 * out * 4);
  const core::ParameterStore layout(Layers::specs({.magnitudes = true}), core::ParameterStore::Arenas::none);
  CHECK(layers::RowFactors(layout).bytes() == l.factors.bytes());
  const core::ParameterSlice& magnitude =
      layout.slices()[static_cast<std::size_t>(layout.find("v.lora_magnitude_vector"))];
  CHECK(magnitude.decay);
  CHECK(magnitude.adapter);
  CHECK(magnitude.shape == std::vector<std::int64_t>{out});
}
