// The choice of an implementation of attention, and the pairs of a mask.
#include "bert_hpc/ops/attention.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"
#include "portable_attention.hpp"
#if BERT_HPC_KERNELS_ON_GPU
#include "cuda/fused_attention.hpp"
#else
#include "cpu/fused_attention.hpp"
#include "cpu/relative_attention.hpp"
#include "cpu/unfused_attention.hpp"
#endif

namespace bert_hpc::ops {

double masked_pairs(const AttentionMask& mask, double pairs, double rows) {
  if (!mask.is_limited() || rows == 0) return pairs;
  const double length = pairs / rows;
  const auto on_a_side = [length](std::int32_t limit) {  // of a sequence of this length
    const double reach = std::min<double>(limit, length - 1);
    return length * reach - reach * (reach + 1) / 2;
  };
  return rows + rows / length * (on_a_side(mask.before) + on_a_side(mask.after));
}

std::unique_ptr<Attention> make_attention(const std::string& kind, [[maybe_unused]] core::DataType type,
                                          [[maybe_unused]] bool tf32) {
  if (kind == "portable") return make_portable_attention();
#if BERT_HPC_KERNELS_ON_GPU
  if (kind == "plain") return make_portable_attention();
  if (kind == "fused" || kind == "fused-split") {
    return cuda::make_fused_attention(type, tf32, make_portable_attention(), kind == "fused-split");
  }
#else
  const cpu::InstructionSet widest = cpu::widest_instruction_set(), baseline = cpu::InstructionSet::baseline;
  if (kind == "plain") return cpu::make_relative_attention(widest, type, cpu::make_unfused_attention(widest, type));
  if (kind == "fused") return cpu::make_relative_attention(widest, type, cpu::make_fused_attention(widest, type));
  if (kind == "fused-baseline") {
    return cpu::make_relative_attention(baseline, type, cpu::make_fused_attention(baseline, type));
  }
#endif
  throw core::Error(core::ExitCode::input,
                    "model.attention = \"" + kind + "\" is not known; there are \"fused\" and \"plain\".");
}

}  // namespace bert_hpc::ops
