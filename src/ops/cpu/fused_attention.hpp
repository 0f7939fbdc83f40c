// The CPU's fused attention, one of the choices of ops/attention_kinds.cpp.
#pragma once

#include <memory>

#include "bert_hpc/ops/attention.hpp"
#include "instruction_set.hpp"

namespace bert_hpc::ops::cpu {

/// For operands of this element type.
std::unique_ptr<Attention> make_fused_attention(InstructionSet set, core::DataType type);

}  // namespace bert_hpc::ops::cpu
