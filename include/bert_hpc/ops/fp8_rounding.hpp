// Rounding of float or bf16 numbers to 8 bits with a scale in device memory. The kernels can also record the largest
// magnitude; see ops/fp8_scales.hpp. Functions of bf16 numbers (ProductOperand) are rounded to bf16 first, as in
// memory: GELU to E4M3, its gradient to E5M2.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/ops/fp8_scales.hpp"
#include "bert_hpc/ops/product_operand.hpp"

namespace bert_hpc::ops {

/// Raises *scale.largest to the largest magnitude of x if that is larger. NaN counts as infinity.
void note_magnitude(core::ConstMatrix x, const Fp8Scale& scale);

/// y = x through FP8: scaled, rounded, scaled back. y's type holds the result exactly if it is float or bf16. Shapes
/// equal; y may be x. `notes`: also record the largest magnitude of x.
void round_through_fp8(core::ConstMatrix x, const Fp8Scale& scale, bool notes, core::Matrix y);

/// y = the 8-bit numbers of x, which is no gradient of GELU. Shapes equal.
void round_to_fp8(const ProductOperand& x, const Fp8Scale& scale, bool notes, core::Tensor<std::uint8_t> y);

/// y = the 8-bit numbers of xᵀ: (x.columns, at least x.rows), padded with zeros. Rows of y have sizes and addresses
/// that are multiples of 16 bytes. If `plain` has data, the same pass also writes the 8-bit numbers of x there.
/// `notes` as above. A gradient of GELU fills its partial sums.
void round_to_fp8_transposed(const ProductOperand& x, const Fp8Scale& scale, bool notes, core::Tensor<std::uint8_t> y,
                             core::Tensor<std::uint8_t> plain = {});

}  // namespace bert_hpc::ops
