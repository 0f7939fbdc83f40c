#include "bert_hpc/ops/fusion.hpp"

#include "bert_hpc/core/environment.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::ops {

Fusion fusion_of(const std::string& value) {
  if (value.empty() || value == "on") return {};
  if (value == "off") return {.biases = false, .row_sums = false, .bias_gradients = false};
  if (value == "all") return {.biases = true, .row_sums = true, .bias_gradients = true};
  throw core::Error(core::ExitCode::input,
                    "BERT_HPC_GPU_EPILOGUES is \"" + value + "\": \"on\", \"off\" and \"all\" are known.");
}

const Fusion& fusion() {
  static const Fusion chosen = fusion_of(core::environment("BERT_HPC_GPU_EPILOGUES"));
  return chosen;
}

}  // namespace bert_hpc::ops
