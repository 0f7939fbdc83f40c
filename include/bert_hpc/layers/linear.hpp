// A linear layer y = x·wᵀ + b. Layers compute every matrix product through this class, so that it alone decides which
// implementation computes a product, how gradients are written, and what is added to a product (an adapter, say).
//
// Shapes: w (out, in), b (out), x and d_x (rows, in), y and d_y (rows, out), of this rank's part of the layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/layers/linear_weight.hpp"
#include "bert_hpc/layers/low_rank_adapter.hpp"
#include "bert_hpc/layers/step_context.hpp"

namespace bert_hpc::layers {

/// Appends a bias: it begins as zeros and does not decay.
void declare_vector(std::vector<core::ParameterSpec>& specs, core::ParameterSpec spec);

struct LinearSettings {
  std::string weight;       ///< name of its parameter (out, in)
  std::string bias{};       ///< name of its parameter (out); empty: no bias
  std::int64_t joined = 1;  ///< so many layers, whose parameters follow one another in the arena, computed as one
  /// A layer of the encoder: it is computed in FP8 if the engine has FP8, and its weight gradient is written as
  /// Engine::weight_gradients says. Other layers are never computed in FP8, and add to their gradients.
  bool in_encoder = true;
  AdapterSettings adapters{};      ///< as the parameters have them
  std::uint32_t adapter_site = 0;  ///< of their dropout
  TensorGroup group{};             ///< that shares out the layer
};

class Linear {
 public:
  /// `parameters` must outlive it. Throws Error(internal) if a parameter is missing.
  Linear(const core::ParameterStore& parameters, const LinearSettings& settings);

  // An adapter's part is in y and d_x, and its gradients are written with the weight's. A layer with adapters is given
  // `rows`: the same to each of its passes over a micro-batch, with memory from take_inner().

  /// (rows, columns of its adapters), to be kept with the activations or with what the weight gradients need; empty
  /// without adapters.
  Matrix take_inner(core::Workspace& workspace, std::int64_t rows, DataType type) const {
    return adapters_.take_inner(workspace, rows, type);
  }

  /// y = x·wᵀ + b.
  void forward(const Engine& engine, ConstMatrix x, Matrix y, const LinearRows& rows = {}) const;
  /// pre = x·wᵀ + b, y = activation(pre), of pre as it is stored.
  void forward(const Engine& engine, ConstMatrix x, ops::Activation activation, Matrix pre, Matrix y,
               const LinearRows& rows = {}) const;
  /// y = x·wᵀ: a later kernel of the caller adds the bias.
  void forward_without_bias(const Engine& engine, const ops::ProductOperand& x, Matrix y,
                            const LinearRows& rows = {}) const;

  /// d_x = d_y·w (or +=).
  void backward_input(const Engine& engine, const ops::ProductOperand& d_y, Matrix d_x, ops::Write write,
                      const LinearRows& rows = {}) const;
  /// d_pre = (d_y·w) ∘ activation'(pre): the gradient through the activation whose result was x. d_pre may not be pre.
  void backward_input(const Engine& engine, ConstMatrix d_y, ops::Activation activation, ConstMatrix pre, Matrix d_pre,
                      const LinearRows& rows = {}) const;

  /// Adds d_yᵀ·x to the weight's gradient and the column sums of d_y to the bias's. What is frozen has no gradient, and
  /// of a frozen weight no product is computed.
  void backward_weight(const Engine& engine, ConstMatrix d_y, const ops::ProductOperand& x,
                       const LinearRows& rows = {}) const;
  /// The weight's gradient alone: kernels of the caller add to the bias's.
  void backward_weight_without_bias(const Engine& engine, const ops::ProductOperand& d_y, const ops::ProductOperand& x,
                                    const LinearRows& rows = {}) const;

  /// Whether operands may be functions of matrices: its products are in FP8 and the next to read them.
  bool computes_operands(const Engine& engine) const {
    return in_encoder_ && adapters_.none() && engine.fp8 != nullptr && engine.fp8->computes_operands();
  }

  bool is_adapted() const { return !adapters_.none(); }
  /// Whether its weight, its bias or an adapter of it has a gradient.
  bool is_trained() const {
    return parameters_->is_trainable(weight_) || (has_bias() && parameters_->is_trainable(bias_)) ||
           adapters_.trained();
  }

  const float* bias() const { return has_bias() ? parameters_->value(bias_).data : nullptr; }  ///< (out) or null
  /// (out); null without a bias and with a frozen one.
  float* bias_gradient() const { return has_bias() ? parameters_->gradient(bias_).data : nullptr; }

  /// For planning. `selected`: applied to the rows that the head reads.
  LinearWeight weight(bool selected) const;
  /// Appends it and the weights of adapters.
  void list_weights(bool selected, std::vector<LinearWeight>& weights) const;

 private:
  bool has_bias() const { return bias_ >= 0; }
  template <class T>
  Tensor<T> join(Tensor<T> first) const {
    return {first.data, outputs_, first.columns};
  }
  Tensor<const float> values() const { return join(parameters_->value(weight_)); }
  Matrix gradients() const {
    const Matrix first = parameters_->gradient_matrix(weight_);
    return {first.data, outputs_, first.columns, first.columns, first.type};
  }
  void add_weight_gradient(const Engine& engine, ConstMatrix d_y, ConstMatrix x, float* d_bias,
                           const LinearRows& rows) const;
  ops::MatrixProduct& products(const Engine& engine) const {
    return in_encoder_ ? engine.products_of(weight_) : engine.products;
  }

  const core::ParameterStore* parameters_;
  int weight_, bias_;
  std::int64_t outputs_;  ///< here, of all joined layers
  bool in_encoder_;
  Adapters adapters_;
};

}  // namespace bert_hpc::layers
