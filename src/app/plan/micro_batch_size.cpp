#include "bert_hpc/app/plan/micro_batch_size.hpp"

#include <algorithm>

#include "bert_hpc/app/engine/data_sets.hpp"
#include "bert_hpc/app/engine/head_rows.hpp"
#include "bert_hpc/app/engine/model_instance.hpp"
#include "bert_hpc/app/engine/training_settings.hpp"
#include "bert_hpc/app/plan/pipeline_setup.hpp"
#include "bert_hpc/app/run/collective.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/train/shard_plan.hpp"

namespace bert_hpc::app {
namespace {

/// Of this rank's place in the grid, all but the data.
std::int64_t planned_bytes(const RunContext& context, const model::ModelConfig& config, const data::ShardReader& reader,
                           std::int64_t tokens) {
  const config::Config& input = context.input;
  const comm::GridShape& grid = context.grid;
  const bool trains = input.trains();
  const comm::GridCoordinates place = comm::coordinates(grid, std::min(context.world.rank(), context.ranks() - 1));
  const objectives::Objective& objective = objectives::named(input.task.name);
  ModelInstance model(
      input, config, {.trains = trains, .allocates = false}, grid, place,
      balance_by_cost(input, config, objective.head, trains, grid.pipeline, reader.info().mean_length()));
  layers::BatchBounds bounds;
  bounds.tokens = tokens;
  bounds.max_length = reader.info().max_length;
  bounds.sequences = std::clamp<std::int64_t>(input.batch.global / grid.data, 1, tokens);
  bounds.selected = planned_targets(*objective.task, bounds.sequences, tokens);
  // A pipeline fills its stages with micro-batches.
  model.allocate(trains ? bounds : layers::BatchBounds{}, 2 * grid.pipeline, bounds);
  std::int64_t bytes = total(model_memory(model, trains));
  if (!trains) return bytes;
  train::ShardSettings shards = shard_settings(input, 1);
  shards.segments = model.segments();
  shards.units = model.units();
  for (const auto& [name, part] : train::plan_shards(model.parameters, shards, grid.data).memory()) bytes += part;
  return bytes;
}

}  // namespace

std::int64_t largest_micro_tokens(std::int64_t available, const std::function<std::int64_t(std::int64_t)>& bytes) {
  for (std::int64_t power = max_micro_tokens; power > least_micro_tokens; power /= 2) {
    for (const std::int64_t tokens : {power, power / 4 * 3}) {
      if (bytes(tokens) <= available) return tokens;
    }
  }
  return least_micro_tokens;
}

std::int64_t usual_micro_tokens(const RunContext& context, const model::ModelConfig& config,
                                const data::ShardReader& reader) {
  if (!core::is_gpu_build()) return least_micro_tokens;
  if (context.world.minimum(static_cast<double>(context.device.memory)) <= 0) return planned_micro_tokens;
  // The remainder is for the CUDA context, NCCL, cuBLAS and the data.
  const std::int64_t available = context.device.memory / 20 * 17;
  std::int64_t tokens = 0;
  collectively(context.world, [&] {
    tokens = largest_micro_tokens(available,
                                  [&](std::int64_t count) { return planned_bytes(context, config, reader, count); });
  });
  return static_cast<std::int64_t>(context.world.minimum(static_cast<double>(tokens)));
}

}  // namespace bert_hpc::app
