// Rounding of float or bf16 numbers to 8 bits with a scale in device memory. The kernels can also record the largest
// magnitude; see ops/fp8_scales.hpp.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/ops/fp8_scales.hpp"

namespace bert_hpc::ops {

/// Raises *scale.largest to the largest magnitude of x if that is larger. NaN counts as infinity.
void note_magnitude(core::ConstMatrix x, const Fp8Scale& scale);

/// y = x through FP8: scaled, rounded, scaled back. y's type holds the result exactly if it is float or bf16. Shapes
/// equal; y may be x. `notes`: also record the largest magnitude of x.
void round_through_fp8(core::ConstMatrix x, const Fp8Scale& scale, bool notes, core::Matrix y);

/// y = the 8-bit numbers of x. Shapes equal.
void round_to_fp8(core::ConstMatrix x, const Fp8Scale& scale, bool notes, core::Tensor<std::uint8_t> y);

/// y = the 8-bit numbers of xᵀ: (x.columns, at least x.rows), padded with zeros. Rows of y have sizes and addresses
/// that are multiples of 16 bytes. If `plain` has data, the same pass also writes the result of round_to_fp8() there.
/// `notes` as above.
void round_to_fp8_turned(core::ConstMatrix x, const Fp8Scale& scale, bool notes, core::Tensor<std::uint8_t> y,
                         core::Tensor<std::uint8_t> plain = {});

}  // namespace bert_hpc::ops
