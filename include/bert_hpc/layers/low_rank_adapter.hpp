// Low-rank adapters of linear layers (Hu et al., "LoRA: low-rank adaptation of large language models", 2022):
//   y = x·wᵀ + b + s·dropout(x)·aᵀ·b̂,  a (rank, in), b̂ (rank, out), s = alpha / rank or alpha / √rank,
// where a and b̂ are trained and w is frozen. Layers add them through Linear. PEFT stores b̂ as (out, rank); here it is
// stored transposed, so that both products with it are products of a linear layer.
//
// A layer that is several here, as GPT-2's c_attn is query, key and value, has one adapter: one a, and the columns of b̂
// and m that belong to each. Its parts are called LAYER.NAME, and the a is LAYER's.
//
// With magnitudes (Liu et al., "DoRA: weight-decomposed low-rank adaptation", 2024) a layer computes
//   y = x·wᵀ + b + (g − 1) ∘ (x'·wᵀ) + g ∘ (s·x'·aᵀ·b̂),  x' = dropout(x),  g = m / ‖w + s·b̂ᵀ·a‖ of each row,
// which without dropout is g ∘ (x·wᵀ + s·x·aᵀ·b̂) + b. m (out) is trained too; gradients take the norms as constants.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/linear_weight.hpp"
#include "bert_hpc/layers/row_factors.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/layers/tensor_group.hpp"

namespace bert_hpc::layers {

/// The adapters of a sublayer.
struct AdapterSettings {
  std::int64_t rank = 0;  ///< 0: none
  float scale = 1;        ///< s
  float dropout = 0;      ///< of x, on the way to a
  bool magnitudes = false;
  std::vector<std::string> layers{};  ///< names of the linear layers that have one
  std::string joint{};                ///< name of a layer of which some of `layers` are parts; "": there is none

  bool any() const { return rank > 0 && !layers.empty(); }
  bool adapts(const std::string& layer) const {
    return any() && std::find(layers.begin(), layers.end(), layer) != layers.end();
  }
  bool is_part(const std::string& layer) const { return !joint.empty() && layer.starts_with(joint + '.'); }
};

/// Names of the adapter's parameters, from the layer's name without ".weight".
std::string adapter_a(const std::string& layer);
std::string adapter_b(const std::string& layer);
std::string adapter_magnitude(const std::string& layer);
bool is_adapter_magnitude(const std::string& parameter);
/// Index of the a of this layer, or of the layer of which it is a part; -1 if it has no adapter.
int find_adapter_a(const core::ParameterStore& parameters, const std::string& layer);

/// What a tensor group shares out of a linear layer: its outputs, which are rows of w, or its inputs, which are
/// columns. Then b̂ or a is shared out like w, and the other one is whole on each rank. Its gradient is a sum over the
/// ranks.
enum class LayerSplit { outputs, inputs };

/// A linear layer that has an adapter.
struct AdaptedLayer {
  std::string name;              ///< without ".weight"
  std::int64_t in = 0, out = 0;  ///< of the whole layer
};
/// Appends the adapters of layers with the same input: every a, one behind the other, then every b̂, then every m. Parts
/// of a joint layer, which are all of these layers or none, have one a. With
/// these values an adapter changes nothing: a is uniform in ±1/√in, as PEFT begins with, b̂ is zero; m is what
/// set_magnitudes() makes of w.
void declare_adapters(const std::vector<AdaptedLayer>& layers, const AdapterSettings& settings,
                      std::vector<core::ParameterSpec>& specs, LayerSplit split = LayerSplit::outputs,
                      const TensorRank& tensor_rank = {});

/// The rows of a TensorExchange that the gradients of adapters of this rank take, where these are whole on each rank.
inline std::int64_t exchanged_rows(std::int64_t rank) {
  constexpr std::int64_t most_joined = 3;  // query, key and value
  return most_joined * rank;
}

/// Plans what the adapters of this weight, or its recurrence, take of Engine::scratch; nothing for other weights.
void plan_scratch(const LinearWeight& weight, const BatchBounds& bounds, DataType type, core::Workspace& scratch);

using core::ScratchScope;

/// Token rows of x, which decide the dropout of adapters, and the inner matrices that adapters keep of a micro-batch
/// for their gradients: a few columns, each of which takes a pass over x or d_y to recompute. All null without
/// adapters.
struct LinearRows {
  const StepContext* context = nullptr;
  const core::TokenRows* rows = nullptr;
  Matrix of_x{};    ///< (rows, adapters · rank): s·dropout(x)·aᵀ, which forward writes
  Matrix of_d_y{};  ///< (rows, adapters · rank): s·d_y·b̂ᵀ, which backward_input writes
};

/// The adapters of joined linear layers. Scratch comes from Engine::scratch. Functions do nothing if there are none.
class Adapters {
 public:
  Adapters() = default;
  /// Finds the adapters of the layers whose weights are the slices [weight, weight + joined). `site`: of their dropout.
  /// Weights beside magnitudes are frozen. In a `group` of several, forward and backward_input give the rank's part of
  /// what the products with w give, and backward_weight is collective.
  Adapters(const core::ParameterStore& parameters, int weight, std::int64_t joined, const AdapterSettings& settings,
           std::uint32_t site, const TensorGroup& group = {});

  bool none() const { return parts_.empty(); }
  bool trained() const { return !none() && parameters_->is_trainable(first_a_); }
  bool have_magnitudes() const { return have_magnitudes_; }
  /// Memory for LinearRows::of_x or of_d_y.
  Matrix take_inner(core::Workspace& workspace, std::int64_t rows, DataType type) const {
    return none() ? Matrix() : workspace.take(rows, a().rows, type);
  }

  // Without magnitudes:

  /// y += s·dropout(x)·aᵀ·b̂. x (rows, in), y (rows, out).
  void forward(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix x,
               Matrix y) const;
  /// d_x += dropout(s·d_y·b̂ᵀ·a).
  void backward_input(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix d_y,
                      Matrix d_x) const;

  // With magnitudes, the products with w included:

  /// y as above, of all joined layers. bias (out) or null.
  void forward_scaled(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix x,
                      const float* bias, Matrix y) const;
  /// d_x = or += the gradient.
  void backward_input_scaled(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows,
                             ConstMatrix d_y, Matrix d_x, ops::Write write) const;

  /// The gradients of a and b̂, written as Engine::weight_gradients says, and that of m, which is added, from what
  /// forward and backward_input have kept. The gradient of m needs y without the bias, which is computed again.
  void backward_weight(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix d_y,
                       ConstMatrix x) const;

  /// Appends the weights of all products, with what they take of the scratch memory: what dropout leaves of x, and with
  /// magnitudes a matrix like y.
  void list_weights(bool selected, std::vector<LinearWeight>& weights) const;

 private:
  struct Part {
    int weight = 0, b = 0, magnitude = -1;  // slices
    std::int64_t column = 0;                // of y, where the layer's outputs begin
  };
  Tensor<const float> a() const;                     // (adapters · rank, in); of a joint layer (rank, in)
  Tensor<const float> b(std::size_t adapter) const;  // (rank, out of one layer)
  std::size_t count() const { return parts_.size(); }
  ops::ProductSeries series() const;
  ops::ProductSeries series_of_gradients() const;
  std::size_t in_series() const { return static_cast<std::size_t>(series_.count); }
  const std::string& name(int slice) const { return parameters_->slices()[static_cast<std::size_t>(slice)].name; }
  Tensor<const float> w(std::size_t adapter) const { return parameters_->value(parts_[adapter].weight); }
  Tensor<const float> all_w() const;  // (out of all joined layers, in)
  template <class AnyMatrix>
  AnyMatrix columns_of(AnyMatrix y, std::size_t adapter) const {
    return y.column_range(parts_[adapter].column, b(adapter).columns);
  }
  template <class AnyMatrix>
  AnyMatrix inner_of(AnyMatrix inner, std::size_t adapter) const {
    return inner.column_range(has_one_a_ ? 0 : static_cast<std::int64_t>(adapter) * rank_, rank_);
  }
  RowFactors::Rows factors(const Engine& engine) const;
  Matrix take_like(const Engine& engine, ConstMatrix y) const;
  ConstMatrix inner_of_x(ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix x) const;
  ConstMatrix inner_of_d_y(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows,
                           ConstMatrix d_y) const;
  ConstMatrix dropped(const Engine& engine, const LinearRows& rows, ConstMatrix x) const;
  void forward_dropped(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix kept,
                       Matrix y) const;
  void add_magnitude_gradients(const Engine& engine, ops::MatrixProduct& products, ConstMatrix d_y, ConstMatrix kept,
                               ConstMatrix of_x, Matrix scratch) const;
  void write_gradient(ops::Write write, ops::MatrixProduct& products, ConstMatrix d_y, ConstMatrix x,
                      LayerSplit partial_in, Matrix gradient) const;
  core::Dropout dropout(const LinearRows& rows) const;
  bool shares(LayerSplit split) const { return group_.shared() && split_ == split; }
  bool drops(const LinearRows& rows) const;

  const core::ParameterStore* parameters_ = nullptr;
  int first_weight_ = -1, first_a_ = -1;
  std::vector<Part> parts_;
  ops::ProductSeries series_;  // the products with b̂ of all adapters, or of one
  std::int64_t joined_ = 0, outputs_ = 0, rank_ = 0;
  bool have_magnitudes_ = false;
  bool has_one_a_ = false;  // of parts of a joint layer
  float scale_ = 1, dropout_ = 0;
  std::uint32_t site_ = 0;
  TensorGroup group_;
  LayerSplit split_ = LayerSplit::outputs;  // where the group is of several
  std::int64_t first_input_ = 0;            // of the whole layer, where inputs are shared out
};

}  // namespace bert_hpc::layers
