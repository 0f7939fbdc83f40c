// FP8 gemms of a model's large linear layers (Micikevicius et al., "FP8 formats for deep learning", 2022): x and the
// weights are rounded to E4M3, d_y to E5M2; sums are in float, results in bf16. Scaling is delayed
// (ops/fp8_scales.hpp). Gradients of biases are sums of d_y before rounding.
//
// Scales belong to a layer, so of() selects one; its result is the MatrixProduct of this layer until the next call.
// Operands are rounded each time they are read, except weights, which round_weights() rounds once per step: from their
// copies in bf16 where `rounded` keeps them (MatrixProduct::keep_weights()), which are half as long as the floats.
//
// The portable form rounds through FP8 into bf16 and calls another matrix product. As scales are powers of two, the
// result equals that of an FP8 gemm up to the order and precision of the sums.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/ops/fp8_scales.hpp"
#include "bert_hpc/ops/matrix_product.hpp"
#include "bert_hpc/ops/product_operand.hpp"

namespace bert_hpc::ops {

/// All extents of FP8 gemms except the rows must be multiples of this: cuBLASLt's rule, applied to every
/// implementation.
inline constexpr std::int64_t fp8_granularity = 16;

/// A layer whose gemms are in FP8.
struct Fp8Layer {
  int id = 0;                  ///< unique number, chosen by the caller
  std::string name;            ///< name of its magnitudes in checkpoints
  Tensor<const float> weight;  ///< (out, in); null data in an estimate
};

class Fp8Product : public MatrixProduct {
 public:
  /// `rounded`: bf16 gemms for the first step, before any magnitudes are known. It must outlive this object.
  Fp8Product(MatrixProduct& rounded, std::vector<Fp8Layer> layers, bool allocates);

  bool rows_are_independent() const override { return rounded_.rows_are_independent(); }

  /// Selects the layer with this id for the following gemms.
  Fp8Product& of(int id);
  Fp8Scales& scales() { return scales_; }

  /// Records the largest magnitudes of the weights; call it when a step begins or weights have changed. The caller then
  /// takes the maximum over all ranks that share a layer, and round_weights() computes the scales and rounds the
  /// weights.
  void note_weights();
  void round_weights();

  std::int64_t reserve(const ProductExtents& largest) final;
  void forward(ConstMatrix x, Tensor<const float> w, const Epilogue& epilogue, Matrix y) final;
  void backward_input(ConstMatrix d_y, Tensor<const float> w, Matrix d_x, const InputEpilogue& epilogue) final;
  void backward_weight(ConstMatrix d_y, ConstMatrix x, Matrix d_w, float* d_bias, Write write) final;

  /// Whether this step's gemms compute functions of matrices while they round them; the following are for them alone.
  bool computes_operands() const { return scales_.known() && rounds_operands(); }
  void forward(const ProductOperand& x, Matrix y) { run_forward(x, {}, y); }
  void backward_input(const ProductOperand& d_y, Matrix d_x, Write write) { run_backward_input(d_y, d_x, write); }
  void backward_weight(const ProductOperand& d_y, const ProductOperand& x, Matrix d_w, Write write) {
    run_backward_weight(d_y, x, d_w, write);
  }

 protected:
  // Implementations of the operations for a layer with known scales. run_forward records magnitudes of x and
  // run_backward_input those of d_y. The caller computes d_bias. Unless rounds_operands(), operands are matrices.
  virtual std::int64_t reserve_rounded(const ProductExtents& largest) = 0;
  virtual void round_weight(std::size_t layer) = 0;
  virtual bool rounds_operands() const { return false; }
  virtual void run_forward(const ProductOperand& x, const Epilogue& epilogue, Matrix y) = 0;
  virtual void run_backward_input(const ProductOperand& d_y, Matrix d_x, const InputEpilogue& epilogue) = 0;
  virtual void run_backward_weight(const ProductOperand& d_y, const ProductOperand& x, Matrix d_w, Write write) = 0;
  const std::vector<Fp8Layer>& layers() const { return layers_; }
  bool allocates() const { return allocates_; }
  MatrixProduct& rounded() { return rounded_; }
  std::size_t layer() const { return layer_; }  ///< the selected one
  Fp8Scale scale(Fp8Operand operand) const { return scales_.of(layer_, operand); }

 private:
  MatrixProduct& rounded_;
  std::vector<Fp8Layer> layers_;
  bool allocates_;
  std::map<int, std::size_t> by_id_;
  Fp8Scales scales_;
  std::size_t layer_ = 0;
};

/// Settings of FP8 gemms.
struct Fp8Settings {
  bool allocates = true;                                   ///< false: an estimate that only reports bytes
  bool portable = false;                                   ///< use the portable form on every device
  bool reproducible = true;                                ///< as ProductSettings::reproducible
  core::DataType weight_gradients = core::DataType::fp32;  ///< as ProductSettings::weight_gradients
};

/// The fastest implementation for this build and device. It may use `rounded`, bf16 gemms that must outlive it.
std::unique_ptr<Fp8Product> make_fp8_product(MatrixProduct& rounded, std::vector<Fp8Layer> layers,
                                             const Fp8Settings& settings = {});

}  // namespace bert_hpc::ops
