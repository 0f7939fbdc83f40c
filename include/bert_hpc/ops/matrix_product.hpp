// The matrix products of a linear layer, behind one interface with one implementation per vendor or processor. A
// linear layer keeps Hugging Face's orientation: weight (out, in), y = x·wᵀ + b.
//
// The fused forms exist because bias, GELU and its derivative cost nothing while a tile of the product is in cache; the
// base class computes them from the plain product and the kernels of ops/activation.hpp.
//
// Rows of y and d_x depend on the same row of x and d_y alone, bit for bit, whatever the other rows, their number and
// the number of threads, if `rows_are_independent()`; reproducible training asks for it.
#pragma once

#include <memory>
#include <string>

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

using core::Tensor;

enum class Write {
  replace,     ///< destination = result
  accumulate,  ///< destination += result
};

/// The largest product a MatrixProduct will be asked for.
struct ProductExtents {
  std::int64_t rows = 0, in = 0, out = 0;
};

class MatrixProduct {
 public:
  virtual ~MatrixProduct() = default;
  virtual std::string name() const = 0;  ///< e.g. "oneDNN 2.6.3"
  virtual bool rows_are_independent() const = 0;

  /// Allocates scratch for products up to these extents (each extent is the largest over all products; tight callers
  /// call it once per kind of product). Nothing is allocated afterwards. Returns the bytes held in all.
  virtual std::int64_t reserve(const ProductExtents& largest) = 0;

  /// y = x·wᵀ + bias. x (rows, in), w (out, in), bias (out) or null, y (rows, out).
  virtual void forward(Tensor<const float> x, Tensor<const float> w, const float* bias, Tensor<float> y) = 0;

  /// pre = x·wᵀ + bias, y = gelu(pre). Shapes as in forward(); bias is not null.
  virtual void forward_gelu(Tensor<const float> x, Tensor<const float> w, const float* bias, Tensor<float> pre,
                            Tensor<float> y);

  /// d_x = d_y·w (or +=). d_y (rows, out), w (out, in), d_x (rows, in).
  virtual void backward_input(Tensor<const float> d_y, Tensor<const float> w, Tensor<float> d_x, Write write) = 0;

  /// d_pre = (d_y·w) ∘ gelu'(pre): the gradient through a GELU that fed this layer. pre and d_pre (rows, in); d_pre may
  /// not be pre.
  virtual void backward_input_gelu(Tensor<const float> d_y, Tensor<const float> w, Tensor<const float> pre,
                                   Tensor<float> d_pre);

  /// d_w = or += d_yᵀ·x, and d_bias = or += column sums of d_y where d_bias is not null. d_w (out, in), d_bias (out).
  virtual void backward_weight(Tensor<const float> d_y, Tensor<const float> x, Tensor<float> d_w, float* d_bias,
                               Write write) = 0;
};

/// The fastest implementation for this build and processor. `preferred`: "" (automatic), "native" (our own), "onednn",
/// "blas", "portable" (our own without special instructions). Our own have independent rows and are always there.
/// Throws Error(input) naming those there are if `preferred` is none of them.
std::unique_ptr<MatrixProduct> make_matrix_product(const std::string& preferred = "");

}  // namespace bert_hpc::ops
