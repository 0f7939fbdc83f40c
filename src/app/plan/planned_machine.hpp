// The machine that a plan is made for, which may be another one than the plan is made on: a login node or a laptop
// plans a training on GPUs.
#pragma once

#include <optional>

#include "app/run/run_context.hpp"
#include "bert_hpc/core/machine_description.hpp"

namespace bert_hpc::app {

/// The machine that [run] machine describes, under --validate. Throws Error(input).
std::optional<core::MachineDescription> planned_machine(const RunContext& context);

/// Whether the ranks that the run is made for compute on GPUs: the planned machine's, else those of this build. Throws
/// Error(input).
bool computes_on_gpus(const RunContext& context);

}  // namespace bert_hpc::app
