// From floats or bf16 numbers to 8-bit ones of a scale that lies in device memory, with a note of the largest magnitude
// on the way; see ops/fp8_scales.hpp.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/ops/fp8_scales.hpp"

namespace bert_hpc::ops {

/// Notes the largest magnitude of x at scale.largest: the larger of it and what is there. NaN counts as infinity.
void note_magnitude(core::ConstMatrix x, const Fp8Scale& scale);

/// y = x through FP8: scaled, rounded, scaled back, stored in y's type, which holds it exactly if it is float or bf16.
/// Shapes equal; y may be x. `notes`: the largest magnitude of x too.
void round_through_fp8(core::ConstMatrix x, const Fp8Scale& scale, bool notes, core::Matrix y);

/// y = the 8-bit numbers of x themselves. Shapes equal.
void round_to_fp8(core::ConstMatrix x, const Fp8Scale& scale, bool notes, core::Tensor<std::uint8_t> y);

/// y = those of xᵀ: (x.columns, at least x.rows), zeros behind these. Rows of y are multiples of 16 bytes at multiples
/// of 16. In the same pass `plain`, if it has data, gets what round_to_fp8() gives.
void round_to_fp8_turned(core::ConstMatrix x, const Fp8Scale& scale, core::Tensor<std::uint8_t> y,
                         core::Tensor<std::uint8_t> plain = {});

}  // namespace bert_hpc::ops
