// Low-rank adapters of linear layers (Hu et al., "LoRA: low-rank adaptation of large language models", 2022):
//   y = x·wᵀ + b + s·dropout(x)·aᵀ·b̂,  a (rank, in), b̂ (rank, out), s = alpha / rank or alpha / √rank,
// where a and b̂ are trained and w is frozen. Layers add them through Linear. PEFT stores b̂ as (out, rank); here it is
// stored transposed, so that both products with it are products of a linear layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/linear_weight.hpp"
#include "bert_hpc/layers/step_context.hpp"

namespace bert_hpc::layers {

/// The adapters of a sublayer.
struct AdapterSettings {
  std::int64_t rank = 0;  ///< 0: none
  float scale = 1;        ///< s
  float dropout = 0;      ///< of x, on the way to a
  // Which linear layers have one.
  bool query = false, key = false, value = false, intermediate = false, output = false;

  bool any() const { return rank > 0 && (query || key || value || intermediate || output); }
  bool operator==(const AdapterSettings&) const = default;
};

/// Names of the adapter's parameters, from the layer's name without ".weight".
std::string adapter_a(const std::string& layer);
std::string adapter_b(const std::string& layer);

/// A linear layer that has an adapter.
struct AdaptedLayer {
  std::string name;  ///< without ".weight"
  std::int64_t in = 0, out = 0;
};
/// Appends the adapters of layers with the same input: every a, one behind the other, then every b̂. With these values
/// an adapter changes nothing: a is uniform in ±1/√in, as PEFT begins with, b̂ is zero.
void declare_adapters(const std::vector<AdaptedLayer>& layers, std::int64_t rank,
                      std::vector<core::ParameterSpec>& specs);

/// Plans what the adapters of this weight take of Engine::scratch; nothing for the weights of layers.
void plan_scratch(const LinearWeight& weight, std::int64_t rows, DataType type, core::Workspace& scratch);

/// Whose rows x are, for the dropout of adapters. Both are null in layers that have none.
struct LinearRows {
  const StepContext* context = nullptr;
  const core::TokenRows* rows = nullptr;
};

/// The adapters of joined linear layers. Scratch comes from Engine::scratch. Functions do nothing where there are none.
class Adapters {
 public:
  Adapters() = default;
  /// Finds the adapters of the layers whose weights are the slices [weight, weight + joined). `site`: of their dropout.
  Adapters(const core::ParameterStore& parameters, int weight, std::int64_t joined, const AdapterSettings& settings,
           std::uint32_t site);

  bool none() const { return parts_.empty(); }
  bool trained() const { return !none() && parameters_->is_trainable(first_a_); }

  /// y += s·dropout(x)·aᵀ·b̂. x (rows, in), y (rows, out).
  void forward(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix x,
               Matrix y) const;
  /// d_x += dropout(s·d_y·b̂ᵀ·a).
  void backward_input(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix d_y,
                      Matrix d_x) const;
  /// The gradients of a and b̂, written as Engine::weight_gradients says. Both inner matrices are computed again: they
  /// cost a product of `rank` columns each, and need not be kept between the parts of a backward pass.
  void backward_weight(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix d_y,
                       ConstMatrix x) const;

  /// Appends the weights of all products, with what they take of the scratch memory: the two inner matrices, and what
  /// dropout leaves of x.
  void list_weights(bool selected, std::vector<LinearWeight>& weights) const;

 private:
  struct Part {
    int b = 0;                // slice
    std::int64_t column = 0;  // of y, where the layer's outputs begin
  };
  Tensor<const float> a() const;                     // (adapters · rank, in)
  Tensor<const float> b(std::size_t adapter) const;  // (rank, out of one layer)
  std::size_t count() const { return parts_.size(); }
  const std::string& name(int slice) const { return parameters_->slices()[static_cast<std::size_t>(slice)].name; }
  ConstMatrix inner_of_x(const Engine& engine, ops::MatrixProduct& products, ConstMatrix x) const;
  ConstMatrix inner_of_d_y(const Engine& engine, ops::MatrixProduct& products, ConstMatrix d_y) const;
  ConstMatrix dropped(const Engine& engine, const LinearRows& rows, ConstMatrix x) const;
  core::Dropout dropout(const LinearRows& rows) const;
  bool drops(const LinearRows& rows) const;

  const core::ParameterStore* parameters_ = nullptr;
  int first_a_ = -1;
  std::vector<Part> parts_;
  std::int64_t rank_ = 0;
  float scale_ = 1, dropout_ = 0;
  std::uint32_t site_ = 0;
};

}  // namespace bert_hpc::layers
