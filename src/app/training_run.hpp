// Mode "train".
#pragma once

#include "app/run/run_context.hpp"

namespace bert_hpc::app {

/// Collective. Mode "train": set-up, the epochs, evaluations in between, the best model kept, results.
void run_training(const RunContext& context);

}  // namespace bert_hpc::app
