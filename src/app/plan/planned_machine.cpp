#include "app/plan/planned_machine.hpp"

#include "bert_hpc/config/machine_description.hpp"
#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::app {

std::optional<core::MachineDescription> planned_machine(const RunContext& context) {
  if (!context.invocation.validate || !context.input.run.machine) return std::nullopt;
  return config::described_machine(context.input);
}

bool computes_on_gpus(const RunContext& context) {
  const std::optional<core::MachineDescription> machine = planned_machine(context);
  return machine ? machine->gpu : core::is_gpu_build();
}

}  // namespace bert_hpc::app
