// The GPU's fused attention, one of the choices of ops/attention_kinds.cpp.
#pragma once

#include <memory>

#include "bert_hpc/ops/attention.hpp"

namespace bert_hpc::ops::cuda {

/// For operands of this element type; floats are multiplied as `tf32` says (ops/attention.hpp). `portable` handles
/// calls that tensor cores cannot (attention_choice.hpp). `split`: backward always uses separate kernels for queries
/// and keys.
std::unique_ptr<Attention> make_fused_attention(core::DataType type, bool tf32, std::unique_ptr<Attention> portable,
                                                bool split);

}  // namespace bert_hpc::ops::cuda
