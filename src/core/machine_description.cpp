#include "bert_hpc/core/machine_description.hpp"

#include <algorithm>
#include <cmath>

namespace bert_hpc::core {

MachineDescription at_hidden(MachineDescription machine, double hidden) {
  const std::vector<GemmRate>& rates = machine.gemm;
  if (rates.empty()) return machine;
  const auto above =
      std::find_if(rates.begin(), rates.end(), [hidden](const GemmRate& rate) { return rate.hidden >= hidden; });
  if (above == rates.begin() || above == rates.end()) {
    machine.flops = above == rates.end() ? rates.back().flops : above->flops;
    return machine;
  }
  const GemmRate &low = *(above - 1), &high = *above;
  const double part = std::log(hidden / low.hidden) / std::log(high.hidden / low.hidden);
  machine.flops = low.flops + part * (high.flops - low.flops);
  return machine;
}

}  // namespace bert_hpc::core
