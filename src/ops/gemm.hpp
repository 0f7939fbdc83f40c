// What the back ends of ops/matrix_product.hpp share: how each is made, and the linear layer's products in terms of one
// row-major GEMM for libraries that offer no fused forms.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::ops {

/// A back end of this build. `make` returns null where it is not to be had after all.
struct ProductKind {
  const char* name;
  std::unique_ptr<MatrixProduct> (*make)();
};

/// Those for this build's kind of device, the one to take on this machine first.
std::vector<ProductKind> product_kinds();

namespace detail {

/// Throws Error(internal) unless the shapes of y (rows, out) = x (rows, in) · w (out, in)ᵀ agree, in and out are at
/// least 1, and strides at least the columns: a product would otherwise read or write beyond its operands.
void require_product_shapes(const Tensor<const float>& x, const Tensor<const float>& w, const Tensor<const float>& y);

/// x = 0, in the order of kernels.
void set_zero_rows(Tensor<float> x);

}  // namespace detail

/// A library with a row-major single-precision GEMM.
class GemmProduct : public MatrixProduct {
 public:
  bool rows_are_independent() const override { return false; }
  std::int64_t reserve(const ProductExtents&) override { return 0; }
  void forward(Tensor<const float> x, Tensor<const float> w, const float* bias, Tensor<float> y) override;
  void backward_input(Tensor<const float> d_y, Tensor<const float> w, Tensor<float> d_x, Write write) override;
  void backward_weight(Tensor<const float> d_y, Tensor<const float> x, Tensor<float> d_w, float* d_bias,
                       Write write) override;

 protected:
  enum class Use { as_is, transposed };

  /// c (m, n) = op(a)·op(b) + beta·c, with op(a) (m, k) and op(b) (k, n); beta is 0 or 1; m, n, k ≥ 1. The strides are
  /// those of the matrices as stored, of which a matrix of one row may have any.
  virtual void gemm(Use use_a, Use use_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                    std::int64_t a_stride, const float* b, std::int64_t b_stride, float beta, float* c,
                    std::int64_t c_stride) = 0;
};

}  // namespace bert_hpc::ops
