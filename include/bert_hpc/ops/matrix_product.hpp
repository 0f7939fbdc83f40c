// The matrix products of a linear layer, behind one interface with one implementation per vendor or processor. A
// linear layer keeps Hugging Face's orientation: weight (out, in), y = x·wᵀ + b.
//
// Bias, activation and its derivative cost nothing while a tile of the product is in cache: a call states them as an
// epilogue. Back ends without one of their own apply the kernels of ops/activation.hpp to the plain product.
//
// A product computes in float, or from 16-bit operands in float: then weights, which are always stored as floats, and
// any other operand in float are rounded to that type as they are read, and sums stay floats until a result is stored
// in its own type. Gradients of parameters are not rounded, unless ProductSettings::weight_gradients says so for those
// that are replaced: each element then once, by a relative error of at most u. Weights may be kept rounded between
// products (ops/rounded_weights.hpp), which changes no bit.
//
// Biases are added as floats; but where a GPU library's epilogue adds them to a 16-bit result they are read as their
// kept copies, as weights are. With unit roundoff u (2^-8 of bf16, 2^-11 of fp16) that changes a result by at most
// u·|bias|. The pass that the epilogue spares has an error of its own, as it adds to a product that was stored: at most
// u·|product|. Reproducible products and those in fp32 always add floats.
//
// Rows of y and d_x depend on the same row of x and d_y alone, bit for bit, whatever the other rows, their number and
// the number of threads, if `rows_are_independent()`; reproducible training asks for it.
#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <string>

#include "bert_hpc/ops/epilogue.hpp"
#include "bert_hpc/ops/rounded_weights.hpp"

namespace bert_hpc::ops {

using core::ConstMatrix;
using core::Matrix;
using core::Tensor;

/// The extents of a linear layer's products: of its input (rows, in), its result (rows, out) and its weight (out, in);
/// of a series, those of each of its `series` products.
struct ProductExtents {
  std::int64_t rows = 0, in = 0, out = 0, series = 1;
  auto operator<=>(const ProductExtents&) const = default;
};

/// Elements from one row to the next of a matrix with so many columns on whose rows a GPU's products are quickest: of
/// at least 16 bytes each, which the loads of whole tiles need, in whole lines of its cache.
constexpr std::int64_t padded_columns(std::int64_t columns) {
  return (columns + 63) / 64 * 64;
}

/// Products of equal extents whose operands lie at equal distances, as those of the adapters of joined layers: numbers
/// of elements from the operands of one product to those of the next one.
struct ProductSeries {
  std::int64_t count = 1;
  std::int64_t x = 0, w = 0, y = 0;  ///< x or d_x, w or d_w, y or d_y
};

/// What products are made for.
struct ProductSettings {
  core::DataType compute = core::DataType::fp32;  ///< of operands; only our own take others than fp32 on CPUs
  /// Operands in fp32 may be rounded to TF32's 10 bits of fraction as they are read: by GPUs that can; ignored
  /// elsewhere.
  bool tf32 = false;
  /// Rows are to depend on nothing else (rows_are_independent()), and the same products to give the same bits in every
  /// run; otherwise algorithms may be chosen by the number of rows and by how long they took.
  bool reproducible = true;
  /// In what weights' gradients may be stored where they are replaced: fp32, or `compute`.
  core::DataType weight_gradients = core::DataType::fp32;
};

class MatrixProduct {
 public:
  explicit MatrixProduct(core::DataType compute = core::DataType::fp32) : compute_(compute) {}
  virtual ~MatrixProduct() = default;
  MatrixProduct(const MatrixProduct&) = delete;
  MatrixProduct& operator=(const MatrixProduct&) = delete;
  virtual std::string name() const = 0;  ///< e.g. "oneDNN 2.6.3"
  virtual bool rows_are_independent() const = 0;

  /// Products of 16-bit operands: from now on weights of `parameters` are read from copies. Returns the copies' bytes.
  std::int64_t keep_weights(const core::ParameterStore& parameters);
  /// A weight or bias as products read it: its copy, if one is kept.
  ConstMatrix read(Tensor<const float> w) { return kept_ ? kept_->of(w) : ConstMatrix(w); }
  /// The copies, if any, for updates that can write them too.
  RoundedWeights* kept_weights() { return kept_ ? &*kept_ : nullptr; }

  /// Allocates scratch for products of up to these extents; call it for every layer (model::product_extents() lists
  /// them). Nothing is allocated afterwards, and a larger product throws Error(internal). Returns the bytes held in
  /// all.
  virtual std::int64_t reserve(const ProductExtents& largest) = 0;

  /// Products of a linear layer of these extents, the rows being the most there are, will come: the back end may try
  /// which of its algorithms are fastest. After reserve() and before the first step; takes memory like the operands'
  /// for a moment, so better before activations have theirs.
  virtual void tune(const ProductExtents&) {}

  /// y = activation(x·wᵀ + bias), as the epilogue states. x (rows, in), w (out, in), y (rows, out).
  virtual void forward(ConstMatrix x, Tensor<const float> w, const Epilogue& epilogue, Matrix y) = 0;

  /// d_x = or += d_y·w, or through an activation, as the epilogue states. d_y (rows, out), w (out, in), d_x (rows, in).
  virtual void backward_input(ConstMatrix d_y, Tensor<const float> w, Matrix d_x, const InputEpilogue& epilogue) = 0;

  /// d_w = or += d_yᵀ·x, and d_bias = or += column sums of d_y where d_bias is not null. d_w (out, in), d_bias (out).
  /// d_w is of float, or of ProductSettings::weight_gradients where it is replaced.
  virtual void backward_weight(ConstMatrix d_y, ConstMatrix x, Matrix d_w, float* d_bias, Write write) = 0;

  // Series of products, given the operands of the first one: one after another, unless the back end has a call for all.

  /// y = factor·x·wᵀ.
  virtual void forward_series(const ProductSeries& series, float factor, ConstMatrix x, Tensor<const float> w,
                              Matrix y);
  /// d_x = or += d_y·w.
  virtual void backward_input_series(const ProductSeries& series, ConstMatrix d_y, Tensor<const float> w, Matrix d_x,
                                     Write write);
  /// d_w = or += d_yᵀ·x.
  virtual void backward_weight_series(const ProductSeries& series, ConstMatrix d_y, ConstMatrix x, Matrix d_w,
                                      Write write);

 protected:
  core::DataType compute() const { return compute_; }

 private:
  core::DataType compute_;
  std::optional<RoundedWeights> kept_;
};

/// Whether products of this build's kind of device can read fp32 operands as TF32.
bool has_tf32();

/// An implementation for this build and processor. `preferred`: "" or "tuned" (the fastest), "library" (a library's),
/// or by name "native" (our own), "onednn", "blas", "cublas", "portable" (our own without special instructions). Our
/// own have independent rows; "portable" is always there. Throws Error(input) naming those there are if `preferred` is
/// none of them.
std::unique_ptr<MatrixProduct> make_matrix_product(const std::string& preferred = "",
                                                   const ProductSettings& settings = {});

}  // namespace bert_hpc::ops
