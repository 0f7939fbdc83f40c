// Three joined linear layers with adapters, their engine and a batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/layers/linear.hpp"
#include "support/host_batch.hpp"
#include "support/recorded_product.hpp"
#include "support/sample_tensors.hpp"
#include "support/stored_matrix.hpp"

namespace bert_hpc::test {

inline constexpr std::int64_t rows = 7, in = 24, out = 16, rank = 3;
inline constexpr float adapter_scale = 1.75f;

/// The first and the third layer have adapters; weights are frozen, adapters are not.
struct AdaptedLayers {
  /// The rank and the scale, and which layers are adapted, are set here.
  explicit AdaptedLayers(const layers::AdapterSettings& settings)
      : batch({1, 2, 3, 4, 5, 6, 7}, std::vector<std::int32_t>(rows, 0), {4, 3}),
        view(batch.view()),
        context{.batch = view, .training = true, .key0 = 5, .key1 = 6},
        store(specs(settings), core::ParameterStore::Arenas::with_gradients, {}, arenas.memory()),
        products(ops::make_matrix_product(test::independent_products())),
        attention(ops::make_attention()),
        layer(
            store,
            {.weight = "q.weight", .bias = "q.bias", .joined = 3, .adapters = completed(settings), .adapter_site = 9}),
        factors(store) {
    const test::Matrix random = test::Matrix::random(1, store.arena_size(), 1);
    const std::span<float> values = store.change_values();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random(0, static_cast<std::int64_t>(i));
    std::vector<layers::LinearWeight> weights;
    layer.list_weights(false, weights);
    for (const layers::LinearWeight& weight : weights) {
      products.reserve(weight.extents({.tokens = rows}));
      layers::plan_scratch(weight, {.tokens = rows, .selected = rows}, core::DataType::fp32, scratch);
    }
    scratch.allocate();
  }

  static layers::AdapterSettings completed(layers::AdapterSettings settings) {
    settings.rank = rank;
    settings.scale = adapter_scale;
    settings.layers = {"q", "v"};
    return settings;
  }
  static std::vector<core::ParameterSpec> specs(const layers::AdapterSettings& settings) {
    std::vector<core::ParameterSpec> specs;
    for (const std::string name : {"q", "k", "v"}) {
      specs.push_back({.name = name + ".weight", .shape = {out, in}, .joined = name != "q", .trainable = false});
    }
    for (const std::string name : {"q", "k", "v"}) {
      specs.push_back({.name = name + ".bias", .shape = {out}, .joined = name != "q", .trainable = false});
    }
    layers::declare_adapters({{"q", in, out}, {"v", in, out}}, completed(settings), specs);
    return specs;
  }

  layers::Engine engine() {
    layers::Engine engine{products, *attention};
    engine.scratch = &scratch;
    engine.factors = &factors;
    return engine;
  }
  layers::LinearRows of() { return {&context, &view.tokens, of_x, of_d_y}; }
  core::Tensor<const float> value(const std::string& name) const { return store.value(store.find(name)); }
  /// Σ y ∘ d_y of the layer's result y.
  double objective(const test::Matrix& x, const test::Matrix& d_y) {
    const layers::Engine all = engine();
    test::Matrix y(rows, 3 * out);
    layer.forward(all, x, y, of());
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t o = 0; o < 3 * out; ++o) sum += static_cast<double>(y(r, o)) * d_y(r, o);
    }
    return sum;
  }
  core::Tensor<float> gradient(const std::string& name) const { return store.gradient(store.find(name)); }
  /// w(o, i) + s·Σ_k b̂(k, o)·a(k, i) of the joined layers.
  double whole(std::int64_t o, std::int64_t i) const {
    const std::string name = o < out ? "q" : o < 2 * out ? "k" : "v";
    double sum = value(name + ".weight")(o % out, i);
    if (name == "k") return sum;
    for (std::int64_t k = 0; k < rank; ++k) {
      sum += static_cast<double>(adapter_scale) * value(layers::adapter_b(name))(k, o % out) *
             value(layers::adapter_a(name))(k, i);
    }
    return sum;
  }

  test::Arenas arenas;
  HostBatch batch;
  core::MicroBatch view;
  layers::StepContext context;
  core::ParameterStore store;
  RecordedProduct products;
  std::unique_ptr<ops::Attention> attention;
  core::Workspace scratch;
  test::StoredMatrix of_x{core::DataType::fp32, rows, 2 * rank}, of_d_y{core::DataType::fp32, rows, 2 * rank};
  layers::Linear layer;
  layers::RowFactors factors;
};

/// The derivative of a function that is linear in the number at(), but for rounding. at() is called for each
/// access, because the device may compute between them.
template <class At, class Function>
double slope(const At& at, const Function& function) {
  constexpr float step = 1.0f;
  const float before = at();
  at() = before + step;
  const double high = function();
  at() = before - step;
  const double low = function();
  at() = before;
  return (high - low) / (2.0 * step);
}

}  // namespace bert_hpc::test
