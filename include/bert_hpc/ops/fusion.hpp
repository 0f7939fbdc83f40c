// Selects the operations that GPU builds fuse with gemms and row kernels while a tile or row is in registers, so that a
// GPU benchmark can compare variants. CPU builds have their own fused forms and ignore it.
#pragma once

#include <string>

namespace bert_hpc::ops {

struct Fusion {
  /// Epilogues of the library's 16-bit gemms add biases.
  bool biases = true;
  /// The backward passes of GELU and of layer norms also sum their output over rows: gradients of biases, γ and β.
  bool row_sums = true;
  /// Epilogues of the library's 16-bit weight gradients compute gradients of biases, if these are written and not added
  /// to.
  bool bias_gradients = false;
  bool operator==(const Fusion&) const = default;
};

/// "on": biases and row sums; "off": nothing; "all": everything. Throws Error(input) for other values. Pure.
Fusion fusion_of(const std::string& value);

/// The selection of this process: "on" until set_fusion().
const Fusion& fusion();
/// Call before the first model is made.
void set_fusion(const Fusion& selected);

}  // namespace bert_hpc::ops
