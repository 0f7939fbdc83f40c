// Derives the grid of ranks from an input file and a model, and checks that ranks, model and [parallel] are compatible
// before anything is loaded. Pure.
#pragma once

#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

/// The grid of all `ranks`. Throws Error(input) that names the nearest layouts that would work: where it does not fit
/// the ranks, the model's blocks, heads or feed-forward, or balance and virtual_stages do not fit the blocks.
comm::GridShape grid_layout(const config::Config& input, int ranks, const model::ModelConfig& model);

}  // namespace bert_hpc::app
