// All optimizers: a new one is a file beside this one, declared and listed here.
#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::ops {

OptimizerKind adamw();
OptimizerKind adamw8bit();
OptimizerKind lamb();
OptimizerKind stable_adamw();

const std::vector<OptimizerKind>& optimizer_kinds() {
  static const std::vector<OptimizerKind> kinds = {adamw(), adamw8bit(), lamb(), stable_adamw()};
  return kinds;
}

const OptimizerKind& optimizer_kind(const std::string& name) {
  const std::vector<OptimizerKind>& kinds = optimizer_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const OptimizerKind& kind) { return name.empty() || kind.input.name == name; });
  if (found == kinds.end()) throw core::Error(core::ExitCode::input, "there is no optimizer \"" + name + "\".");
  return *found;
}

std::vector<core::NamedSettings> optimizer_inputs() {
  std::vector<core::NamedSettings> inputs;
  for (const OptimizerKind& kind : optimizer_kinds()) inputs.push_back(kind.input);
  return inputs;
}

}  // namespace bert_hpc::ops
