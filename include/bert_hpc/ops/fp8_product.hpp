// The products of a model's large linear layers in FP8 (Micikevicius et al., "FP8 formats for deep learning", 2022): x
// and the weights are read in E4M3, d_y in E5M2, sums are floats, results bf16. Scales are delayed
// (ops/fp8_scales.hpp). Gradients of biases are sums of d_y as it is, before it is rounded.
//
// A layer is chosen by of(), as its scales are its own; what that gives is the MatrixProduct of this layer until the
// next call. Everything is rounded anew where it is read but weights, which are rounded once a step: round_weights().
//
// The portable form rounds through FP8 into bf16 and leaves the product to another one: the bits of an FP8 product but
// for the order and the precision of its sums, as scales are powers of two.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/ops/fp8_scales.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::ops {

/// What the extents of FP8 products must be multiples of, but for the rows: cuBLASLt's rule, kept everywhere.
inline constexpr std::int64_t fp8_granularity = 16;

/// A layer whose products are in FP8.
struct Fp8Layer {
  int id = 0;                  ///< of any kind, its own
  std::string name;            ///< under which checkpoints keep its magnitudes
  Tensor<const float> weight;  ///< (out, in); no data in an estimate
};

class Fp8Product : public MatrixProduct {
 public:
  /// `rounded`: bf16 products, for the step before anything is known of magnitudes. Must outlive it.
  Fp8Product(MatrixProduct& rounded, std::vector<Fp8Layer> layers, bool allocates);

  bool rows_are_independent() const override { return rounded_.rows_are_independent(); }

  /// The products that follow are of the layer with this id.
  MatrixProduct& of(int id);
  Fp8Scales& scales() { return scales_; }

  /// A step begins, or weights have changed: notes their largest magnitudes. When these are the maxima over all ranks
  /// that share a layer, round_weights() makes scales of them, and rounds.
  void note_weights();
  void round_weights();

  std::int64_t reserve(const ProductExtents& largest) final;
  void forward(ConstMatrix x, Tensor<const float> w, const float* bias, Matrix y) final;
  void forward_gelu(ConstMatrix x, Tensor<const float> w, const float* bias, Matrix pre, Matrix y) final;
  void backward_input(ConstMatrix d_y, Tensor<const float> w, Matrix d_x, Write write) final;
  void backward_input_gelu(ConstMatrix d_y, Tensor<const float> w, ConstMatrix pre, Matrix d_pre) final;
  void backward_weight(ConstMatrix d_y, ConstMatrix x, Matrix d_w, float* d_bias, Write write) final;

 protected:
  // What implementations do, of a layer whose scales are known. Magnitudes of x are noted by the forward forms, those
  // of d_y by the backward_input forms; d_bias is not theirs.
  virtual std::int64_t reserve_rounded(const ProductExtents& largest) = 0;
  virtual void round_weight(std::size_t layer) = 0;
  virtual void run_forward(ConstMatrix x, const float* bias, Matrix y) = 0;
  virtual void run_forward_gelu(ConstMatrix x, const float* bias, Matrix pre, Matrix y) = 0;
  virtual void run_backward_input(ConstMatrix d_y, Matrix d_x, Write write) = 0;
  virtual void run_backward_input_gelu(ConstMatrix d_y, ConstMatrix pre, Matrix d_pre) = 0;
  virtual void run_backward_weight(ConstMatrix d_y, ConstMatrix x, Tensor<float> d_w, Write write) = 0;

  const std::vector<Fp8Layer>& layers() const { return layers_; }
  bool allocates() const { return allocates_; }
  MatrixProduct& rounded() { return rounded_; }
  std::size_t layer() const { return layer_; }  ///< the chosen one
  Fp8Scale scale(Fp8Operand operand) const { return scales_.of(layer_, operand); }

 private:
  MatrixProduct& rounded_;
  std::vector<Fp8Layer> layers_;
  bool allocates_;
  std::map<int, std::size_t> by_id_;
  Fp8Scales scales_;
  std::size_t layer_ = 0;
};

/// What FP8 products are made for.
struct Fp8Settings {
  bool allocates = true;     ///< else an estimate, which tells bytes alone
  bool portable = false;     ///< the portable form, whatever the device has
  bool reproducible = true;  ///< as ProductSettings::reproducible
};

/// The fastest for this build and device. `rounded`: bf16 products that it may use, and that outlive it.
std::unique_ptr<Fp8Product> make_fp8_product(MatrixProduct& rounded, std::vector<Fp8Layer> layers,
                                             const Fp8Settings& settings = {});

}  // namespace bert_hpc::ops
