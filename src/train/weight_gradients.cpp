#include "bert_hpc/train/weight_gradients.hpp"

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::train {

bool replaces_first_gradients(bool gpu, bool reproducible) {
  return gpu && !reproducible;
}

core::DataType weight_gradient_type(const WeightGradientFacts& facts, const std::string& stated) {
  if (stated != "auto" && stated != "bf16" && stated != "fp32") {
    throw core::Error(core::ExitCode::input,
                      "gradients of weights in \"" + stated + "\": \"auto\", \"bf16\" and \"fp32\" are known.");
  }
  const bool wanted = stated == "auto" ? facts.gpu : stated == "bf16";
  const bool possible = facts.compute == core::DataType::bf16 && !facts.reproducible && !facts.offload &&
                        facts.micro_batches == 1 && facts.replicas == 1 && !facts.shares_blocks;
  return wanted && possible ? core::DataType::bf16 : core::DataType::fp32;
}

std::vector<ArenaRange> replaced_gradients(const core::ParameterStore& parameters) {
  std::vector<ArenaRange> ranges;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    if (slice.one_product && slice.trainable) ranges.push_back({slice.offset, slice.offset + slice.size});
  }
  return ranges;
}

}  // namespace bert_hpc::train
