#include "bert_hpc/ops/fusion.hpp"

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::ops {
namespace {

Fusion& current() {
  static Fusion selected;
  return selected;
}

}  // namespace

Fusion fusion_of(const std::string& value) {
  if (value == "on") return {};
  if (value == "off") return {.biases = false, .row_sums = false, .bias_gradients = false};
  if (value == "all") return {.biases = true, .row_sums = true, .bias_gradients = true};
  throw core::Error(core::ExitCode::input, "epilogues are \"" + value + "\": \"on\", \"off\" and \"all\" are known.");
}

const Fusion& fusion() {
  return current();
}

void set_fusion(const Fusion& selected) {
  current() = selected;
}

}  // namespace bert_hpc::ops
