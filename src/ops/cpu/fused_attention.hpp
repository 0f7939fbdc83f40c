// The CPU's fused attention, for ops/attention.cpp to choose.
#pragma once

#include <memory>

#include "bert_hpc/ops/attention.hpp"

namespace bert_hpc::ops::cpu {

/// With the kernels of the widest instruction set that the processor has.
std::unique_ptr<Attention> make_fused_attention();

}  // namespace bert_hpc::ops::cpu
