// FP8 gemms of 8-bit numbers except for the multiplication itself: rounding and transposing of operands. Every gemm of
// a linear layer becomes the form that tensor cores support on Hopper, c = a·bᵀ with the inner dimension of both
// operands contiguous (cuBLASLt's "TN") and extents that are multiples of 16:
//   y   (rows, out) = x (rows, in) · w (out, in)ᵀ
//   d_x (rows, in)  = d_y (rows, out) · wᵗ (in, out)ᵀ                  wᵗ: transposed once per step
//   d_w (out, in)   = d_yᵗ (out, rows) · xᵗ (in, rows)ᵀ                both transposed, zero-padded to 16·n rows
// A GPU needs as long to round an operand as to read and write it, a quarter of the time of its products. So d_y is
// read once for both gradients: its pass for d_x also writes d_yᵗ where the weight's gradient follows before the
// layer's next backward pass.
#pragma once

#include <vector>

#include "bert_hpc/ops/fp8_product.hpp"

namespace bert_hpc::ops {

/// c (m, n) = a·bᵀ / (scales of a and b) + beta·c + bias, with a (m, k) and b (n, k); beta is 0 or 1.
struct Fp8Matmul {
  struct Operand {
    const std::uint8_t* data = nullptr;
    std::int64_t stride = 0;
    core::Float8 format = core::Float8::e4m3;
    const float* inverse = nullptr;  ///< 1 / scale, in device memory
  };
  std::int64_t m = 0, n = 0, k = 0;
  Operand a{}, b{};
  Matrix c{};  ///< bf16 or float
  float beta = 0;
  bool sums_over_rows = false;  ///< k is the number of rows of a batch; otherwise m is
  /// Whether sums may have about 13 bits if that is faster. Transformer Engine allows it in forward passes alone.
  bool fast_sums = false;
  const void* bias = nullptr;  ///< (n) in c's type, or null
};

/// Rows of a batch, padded for use as an inner dimension.
constexpr std::int64_t padded_rows(std::int64_t rows) {
  return (rows + fp8_granularity - 1) / fp8_granularity * fp8_granularity;
}

class ByteFp8Product : public Fp8Product {
 public:
  ByteFp8Product(MatrixProduct& rounded, std::vector<Fp8Layer> layers, bool allocates);

 protected:
  virtual void multiply(const Fp8Matmul& product) = 0;
  /// Whether multiply() can add the bias of such a product.
  virtual bool adds_bias(const Fp8Matmul&) { return false; }
  std::int64_t reserve_rounded(const ProductExtents& largest) override;

 private:
  void round_weight(std::size_t layer) override;
  bool rounds_operands() const override { return true; }
  void run_forward(const ProductOperand& x, const Epilogue& epilogue, Matrix y) override;
  void run_backward_input(const ProductOperand& d_y, Matrix d_x, const InputEpilogue& epilogue) override;
  void run_backward_weight(const ProductOperand& d_y, const ProductOperand& x, Matrix d_w, Write write) override;

  /// d_yᵗ of a layer, in scratch memory of its own.
  struct TransposedGradient {
    std::size_t layer = 0;
    const void* data = nullptr;  ///< of d_y; null: the memory is free
    std::int64_t rows = 0;
    core::Buffer<std::uint8_t> numbers{};
  };
  TransposedGradient& next_transposed();
  void forget_transposed();  ///< of the layer
  Fp8Matmul::Operand transposed_gradient(const ProductOperand& d_y);
  Fp8Matmul::Operand weight(bool transposed) const;
  /// The bias in the type of `sum`, or null if there is no such copy of it.
  const void* copied(const float* bias, const Matrix& sum);
  Fp8Matmul::Operand described(const Tensor<std::uint8_t>& numbers, Fp8Operand operand) const;
  /// Memory of the layer's weights, as stored or transposed.
  Tensor<std::uint8_t> weight_memory(std::size_t layer, bool transposed) const;
  static Tensor<std::uint8_t> matrix_in(const core::Buffer<std::uint8_t>& memory, std::int64_t rows,
                                        std::int64_t columns);

  std::vector<std::int64_t> begins_;  // by layer
  std::int64_t elements_ = 0, scratch_bytes_ = 0;
  core::Buffer<std::uint8_t> weights_[2];  // as stored, and transposed
  core::Buffer<std::uint8_t> scratch_;     // of x or d_y as it is, or of xᵗ
  // A sublayer's two layers compute their gradients of inputs one after the other, then those of their weights.
  TransposedGradient transposed_[2];
  int next_ = 0;                  // of transposed_
  std::vector<int> outstanding_;  // by layer: gradients of inputs whose gradients of weights have not followed
};

/// FP8 gemms of 8-bit numbers on this machine's devices; null if the devices have none.
std::unique_ptr<Fp8Product> make_device_fp8_product(MatrixProduct& rounded, const std::vector<Fp8Layer>& layers,
                                                    const Fp8Settings& settings);

}  // namespace bert_hpc::ops
