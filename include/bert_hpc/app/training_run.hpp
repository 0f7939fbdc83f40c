// Mode "train": set-up, the epochs, evaluations in between, the best model kept, results.
#pragma once

#include "bert_hpc/app/application.hpp"

namespace bert_hpc::app {

/// Collective over all ranks; exit status. Throws as run_application does.
int run_training(const config::Config& input, const Invocation& invocation, comm::Communicator& world, int threads);

/// Modes "evaluate" and "predict".
int run_evaluation(const config::Config& input, const Invocation& invocation, comm::Communicator& world, int threads);

}  // namespace bert_hpc::app
