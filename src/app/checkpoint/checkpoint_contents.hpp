// What a checkpoint holds and takes, and where the checkpoints of a run lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "app/engine/model_instance.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/tensor_piece.hpp"
#include "bert_hpc/io/checkpoint_folder.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "bert_hpc/train/shard_plan.hpp"

namespace bert_hpc::app {

/// RUN/checkpoints.
io::CheckpointFolder checkpoint_folder(const config::Config& input);

/// Memory of a rank's snapshot, bytes at most. Pure.
std::int64_t snapshot_bytes(const train::ShardPlan& plan);
/// What a checkpoint takes on disk beside the metric history, bytes. Pure.
std::int64_t checkpoint_bytes(const ModelInstance& model, std::span<const ops::StateTensor> states, int ranks);

/// All tensors of the model, as a checkpoint lists them.
std::vector<core::WholeTensor> whole_tensors(const ModelInstance& model);

}  // namespace bert_hpc::app
