// Modes "evaluate" and "predict": a model from a Hugging Face folder over the test (or validation) data.
#pragma once

#include "app/run/run_context.hpp"

namespace bert_hpc::app {

/// Collective. Modes "evaluate" and "predict".
void run_evaluation(const RunContext& context);

}  // namespace bert_hpc::app
