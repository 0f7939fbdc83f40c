// The CPU's fused attention, for ops/attention.cpp to choose.
#pragma once

#include <memory>

#include "bert_hpc/ops/attention.hpp"
#include "instruction_set.hpp"

namespace bert_hpc::ops::cpu {

/// For operands whose elements have this type.
std::unique_ptr<Attention> make_fused_attention(InstructionSet set, core::DataType type);

}  // namespace bert_hpc::ops::cpu
