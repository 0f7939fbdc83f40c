// What GPU builds compute around matrix products while a tile or a row is in registers, so that a GPU benchmark can try
// both ways. CPU builds have their own fused forms and ignore it.
#pragma once

#include <string>

namespace bert_hpc::ops {

struct Fusion {
  /// Epilogues of the library's 16-bit products add biases.
  bool biases = true;
  /// The backward passes of GELU and of layer norms add up over rows what they write: gradients of biases, γ and β.
  bool row_sums = true;
  /// Epilogues of the library's 16-bit weight gradients add up gradients of biases, where these are new.
  bool bias_gradients = false;
  bool operator==(const Fusion&) const = default;
};

/// "" or "on": biases and row sums; "off": nothing; "all": everything. Throws Error(input) for other values.
Fusion fusion_of(const std::string& value);

/// As the environment variable BERT_HPC_GPU_EPILOGUES has it at the first call.
const Fusion& fusion();

}  // namespace bert_hpc::ops
