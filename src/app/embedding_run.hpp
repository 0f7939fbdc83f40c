// Mode "embed": embeddings of the given data sets by a model from a Hugging Face folder.
#pragma once

#include "app/run/run_context.hpp"

namespace bert_hpc::app {

/// Collective.
void run_embedding(const RunContext& context);

}  // namespace bert_hpc::app
