// The CPU's attention with relative positions (ops/relative_positions.hpp), beside that without.
#pragma once

#include <memory>

#include "bert_hpc/ops/attention.hpp"
#include "instruction_set.hpp"

namespace bert_hpc::ops::cpu {

/// For operands of this element type; `usual` computes attention without relative positions.
std::unique_ptr<Attention> make_relative_attention(InstructionSet set, core::DataType type,
                                                   std::unique_ptr<Attention> usual);

}  // namespace bert_hpc::ops::cpu
