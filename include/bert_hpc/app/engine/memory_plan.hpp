// The planned memory of a rank, by its purpose.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bert_hpc::app {

class ModelInstance;

/// Purpose and bytes.
using MemoryPlan = std::vector<std::pair<std::string, std::int64_t>>;

std::int64_t total(const MemoryPlan& plan);

/// Planned memory of the model after allocate(). `trains`: without parameters, gradients and states, which the shard
/// plan of a training lists.
MemoryPlan model_memory(const ModelInstance& model, bool trains);

}  // namespace bert_hpc::app
