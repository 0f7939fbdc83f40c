// Mode "search": the nearest documents of each query among embeddings that mode "embed" has written.
#pragma once

#include "app/run/run_context.hpp"

namespace bert_hpc::app {

/// Collective.
void run_search(const RunContext& context);

}  // namespace bert_hpc::app
