// The GPU's fused attention, for ops/attention.cpp to choose.
#pragma once

#include <memory>

#include "bert_hpc/ops/attention.hpp"

namespace bert_hpc::ops::cuda {

/// For operands whose elements have this type; `portable` does what tensor cores cannot (attention_choice.hpp).
/// `split`: backward is always kernels for each side.
std::unique_ptr<Attention> make_fused_attention(core::DataType type, std::unique_ptr<Attention> portable, bool split);

}  // namespace bert_hpc::ops::cuda
