// Fused attention on CPUs whose kernels read and write bf16 in place (attention_task.hpp).
#pragma once

#include <memory>

#include "attention_task.hpp"
#include "bert_hpc/ops/attention.hpp"

namespace bert_hpc::ops::cpu {

std::unique_ptr<Attention> make_halves_attention(const HalvesAttentionKernels& kernels);

}  // namespace bert_hpc::ops::cpu
