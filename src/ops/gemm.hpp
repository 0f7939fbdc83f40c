// Common parts of the back ends of ops/matrix_product.hpp: their factories, and the gemms of a linear layer in terms of
// one row-major GEMM for libraries without fused forms.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::ops {

/// A back end of this build. `make` returns null if it is not available or does not support such operands.
struct ProductKind {
  const char* name;
  std::unique_ptr<MatrixProduct> (*make)(const ProductSettings& settings);
};

/// The back ends for this build's kind of device, in order of preference on this machine.
std::vector<ProductKind> product_kinds();

namespace detail {

/// Throws Error(internal) unless the shapes of y (rows, out) = x (rows, in) · w (out, in)ᵀ agree, in and out are at
/// least 1, strides are at least the columns, and x and y are of type float or `compute`. Otherwise a gemm would access
/// memory beyond its operands.
void require_product_shapes(core::DataType compute, const ConstMatrix& x, const ConstMatrix& w, const ConstMatrix& y);

/// The same check for a weight gradient d_w (out, in), which may be of type `compute` if it is replaced.
void require_weight_gradient(core::DataType compute, const ConstMatrix& x, const ConstMatrix& d_w,
                             const ConstMatrix& d_y, Write write);

/// Work of c (m, n) = or += a (m, k) · b (k, n), from the bytes of an element of each.
inline core::CallWork product_work(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t a_bytes,
                                   std::int64_t b_bytes, std::int64_t c_bytes, bool adds) {
  const auto rows = static_cast<double>(m), columns = static_cast<double>(n), inner = static_cast<double>(k);
  return {2.0 * rows * columns * inner, static_cast<double>(a_bytes) * rows * inner +
                                            static_cast<double>(b_bytes) * inner * columns +
                                            static_cast<double>(adds ? 2 * c_bytes : c_bytes) * rows * columns};
}

/// x = 0, in the order of kernels.
void set_zero_rows(const Matrix& x);

}  // namespace detail

/// A back end for a library with a row-major GEMM.
class GemmProduct : public MatrixProduct {
 public:
  using MatrixProduct::MatrixProduct;
  bool rows_are_independent() const override { return false; }
  std::int64_t reserve(const ProductExtents&) override { return 0; }
  void forward(ConstMatrix x, Tensor<const float> w, const Epilogue& epilogue, Matrix y) override;
  void backward_input(ConstMatrix d_y, Tensor<const float> w, Matrix d_x, const InputEpilogue& epilogue) override;
  void backward_weight(ConstMatrix d_y, ConstMatrix x, Matrix d_w, float* d_bias, Write write) override;

 protected:
  enum class Use { as_is, transposed };

  /// A matrix as stored; a single row may have any stride.
  struct Operand {
    const void* data;
    std::int64_t stride;
    core::DataType type;
    Use use;
  };
  struct Result {
    void* data;
    std::int64_t stride;
    core::DataType type;
  };

  /// c (m, n) = op(a)·op(b) + beta·c, with op(a) (m, k) and op(b) (k, n); beta is 0 or 1; m, n, k ≥ 1.
  virtual void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Operand& a, const Operand& b, float beta,
                    const Result& c) = 0;

  static core::CallWork work(std::int64_t m, std::int64_t n, std::int64_t k, const Operand& a, const Operand& b,
                             float beta, const Result& c) {
    return detail::product_work(m, n, k, core::bytes_of(a.type), core::bytes_of(b.type), core::bytes_of(c.type),
                                beta != 0.0f);
  }

 private:
  static Operand operand(const ConstMatrix& x, Use use) { return {x.data, x.stride, x.type, use}; }
};

}  // namespace bert_hpc::ops
