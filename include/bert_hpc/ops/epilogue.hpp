// What a matrix product of a linear layer does to its result while a tile of it is in cache, as data.
#pragma once

#include "bert_hpc/core/matrix.hpp"

namespace bert_hpc::ops {

/// Element-wise functions of layers. gelu: x·Φ(x) with the error function; gelu_tanh: the form of it with tanh; silu:
/// x·σ(x).
enum class Activation { none, gelu, gelu_tanh, silu, relu, tanh };

enum class Write {
  replace,     ///< destination = result
  accumulate,  ///< destination += result
};

/// Epilogue of a forward product: y = activation(pre), pre = x·wᵀ + bias; without an activation y = x·wᵀ + bias.
struct Epilogue {
  // Implicit, as a product with a bias or with none is the usual one.
  Epilogue(const float* added = nullptr) : bias(added) {}  // NOLINT(google-explicit-constructor)
  Epilogue(const float* added, Activation function, const core::Matrix& before)
      : bias(added), activation(function), pre(before) {}

  const float* bias;  ///< (out) or null
  Activation activation = Activation::none;
  core::Matrix pre{};  ///< with an activation, (rows, out), of y's type and not y: the activation reads it as stored

  /// Destination of the product with its bias.
  const core::Matrix& sum(const core::Matrix& y) const { return activation == Activation::none ? y : pre; }
};

/// Epilogue of a backward product: d_x = or += d_y·w, or the gradient through the activation that made x of `pre`:
/// d_pre = (d_y·w) ∘ activation'(pre).
struct InputEpilogue {
  InputEpilogue(Write how) : write(how) {}  // NOLINT(google-explicit-constructor)
  InputEpilogue(Activation function, const core::ConstMatrix& before) : activation(function), pre(before) {}

  Write write = Write::replace;
  Activation activation = Activation::none;
  core::ConstMatrix pre{};  ///< with an activation, (rows, in), of the result's type and not the result
};

}  // namespace bert_hpc::ops
