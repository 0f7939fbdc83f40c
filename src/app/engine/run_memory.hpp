// Planned memory of a run's model and data.
#pragma once

#include "app/engine/data_sets.hpp"
#include "app/engine/memory_plan.hpp"
#include "app/engine/model_instance.hpp"

namespace bert_hpc::app {

/// Planned memory of the model after allocate(). `trains`: without parameters, gradients and states, which the shard
/// plan of a training lists.
MemoryPlan model_memory(const ModelInstance& model, bool trains);

/// Adds what a run takes beside the model's arenas: the data that are kept, what evaluations count, and what the
/// libraries take for themselves.
void add_runtime_overhead(const DataSets& sets, const ModelInstance& model, MemoryPlan& memory);

}  // namespace bert_hpc::app
