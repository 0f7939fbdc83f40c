// Products of 8-bit integers on CPUs, for models that are applied but not trained: rows of x are quantized when a
// product reads them, weights once after each change (scheme: src/ops/cpu/int8/int8_kernels.hpp). Sums are integers and
// exact; results are floats. A row of y depends on the same row of x alone.
#pragma once

#include <memory>
#include <span>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::ops {

class Int8Product : public MatrixProduct {
 public:
  /// Products with `weights` (out, in), which are values of `parameters`, are computed in 8 bits from now on; all
  /// others as before, some rows of these weights too. `parameters` must outlive this object. Returns the bytes of the
  /// quantized weights; allocates nothing if the parameters are only a layout.
  virtual std::int64_t quantize(const core::ParameterStore& parameters,
                                std::span<const Tensor<const float>> weights) = 0;

  // Quantized models are not trained.
  void backward_input(ConstMatrix, Tensor<const float>, Matrix, const InputEpilogue&) final { refuse(); }
  void backward_weight(ConstMatrix, ConstMatrix, Matrix, float*, Write) final { refuse(); }

 private:
  static void refuse() { core::require(false, "8-bit product: a backward pass"); }
};

/// `others`: products in fp32. Returns null in builds for GPUs.
std::unique_ptr<Int8Product> make_int8_product(std::unique_ptr<MatrixProduct> others);

/// Whether this build has products in 8-bit integers.
bool has_int8();

}  // namespace bert_hpc::ops
