#include "app/plan/micro_batch_size.hpp"

#include <algorithm>
#include <cmath>

#include "app/engine/data_sets.hpp"
#include "app/engine/logit_positions.hpp"
#include "app/engine/model_from_config.hpp"
#include "app/engine/model_instance.hpp"
#include "app/engine/padding.hpp"
#include "app/engine/run_memory.hpp"
#include "app/engine/teacher.hpp"
#include "app/engine/training_settings.hpp"
#include "app/plan/pipeline_setup.hpp"
#include "app/run/collective.hpp"
#include "app/run/machine.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "bert_hpc/train/shard_plan.hpp"

namespace bert_hpc::app {
namespace {

/// Planned bytes of this rank without the data.
std::int64_t planned_bytes(const RunContext& context, const model::ModelConfig& config, const data::ShardReader& reader,
                           std::int64_t tokens, const BesideModel& beside, const TeacherPlan* teacher) {
  const config::Config& input = context.input;
  const comm::GridShape& grid = context.grid;
  const bool trains = input.trains();
  const comm::GridCoordinates coordinates =
      comm::coordinates(grid, std::min(context.world.rank(), context.ranks() - 1));
  const objectives::Objective& objective = objectives::of(input);
  const data::PaddingOptions padding = padding_options(input, config, reader);
  const auto balance_of = [&](const model::ModelConfig& of, bool is_trained) {
    config::Config usual = input;
    if (!is_trained && trains) usual.parallel.balance.clear();  // of the student's blocks
    return balance_by_cost(usual, of, objective.head, is_trained, grid.pipeline, reader.info().mean_length(),
                           mean_rows(input, padding, reader, grid.data, tokens));
  };
  ModelInstance model(model_request(input, config, trains, context.on_gpus()), grid, coordinates,
                      balance_of(config, trains), false);
  layers::BatchBounds bounds;
  bounds.tokens = tokens;
  bounds.max_length = padding.rows(reader.info().max_length);
  // A replica's share of a batch is equal in tokens, not in sequences.
  const std::int64_t share = beside ? input.batch.global : input.batch.global / grid.data;
  bounds.sequences = std::clamp<std::int64_t>(share, 1, std::max(tokens / padding.rows(1), std::int64_t{1}));
  bounds.selected = planned_targets(*objective.task, bounds.sequences, tokens);
  // A pipeline fills its stages with micro-batches.
  model.allocate(trains ? bounds : layers::BatchBounds{}, 2 * grid.pipeline, bounds);
  std::int64_t bytes = total(model_memory(model, trains));
  if (beside) bytes += beside(model);
  if (teacher != nullptr) {
    TeacherPlan plan = *teacher;
    plan.balance = balance_of(teacher->request.config, false);
    const double sequences = static_cast<double>(input.batch.global) / grid.data;
    const double micro_batches = std::ceil(sequences * reader.info().mean_length() / static_cast<double>(tokens));
    const int most = std::max(2 * grid.pipeline, static_cast<int>(micro_batches));
    bytes += total(Teacher(plan, grid, coordinates, bounds, most, false).memory());
  }
  if (!trains) return bytes;
  train::ShardSettings shards = shard_settings(context);
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

std::optional<std::int64_t> most_tokens_within(std::int64_t available, std::int64_t least,
                                               const std::function<std::int64_t(std::int64_t)>& bytes) {
  constexpr std::int64_t unit = 64;
  if (bytes(least) > available) return std::nullopt;
  // `fits` is known to fit, `fails` is known not to; both count units.
  std::int64_t fits = least / unit, fails = max_micro_tokens / unit + 1;
  while (fails - fits > 1) {
    const std::int64_t middle = (fits + fails) / 2;
    (bytes(middle * unit) <= available ? fits : fails) = middle;
  }
  return std::max(least, fits * unit);
}

namespace {

/// The remainder is for the CUDA context, NCCL, cuBLAS and the data; on CPUs for the operating system and other
/// programs.
std::int64_t usable(std::int64_t memory) {
  return memory / 20 * 17;
}

}  // namespace

std::int64_t memory_budget(const RunContext& context) {
  const config::Batch& batch = context.input.batch;
  if (!batch.memory.empty()) return static_cast<std::int64_t>(std::min(batch.memory.front(), 1e18));
  if (batch.memory_word.empty()) return 0;
  if (context.planned_machine && context.planned_machine->memory > 0) {
    return usable(static_cast<std::int64_t>(context.planned_machine->memory));
  }
  if (core::is_gpu_build()) return usable(context.device.memory);
  const std::vector<std::string> hosts = context.world.all_gather(io::host_name());
  const auto here = std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(context.world.rank())]);
  // Ranks that are only planned share the host of this one.
  return usable(host_memory()) / std::max<std::int64_t>(here, context.invocation.validate_ranks);
}

namespace {

std::int64_t tokens_within_budget(const RunContext& context, const model::ModelConfig& config,
                                  const data::ShardReader& reader, const BesideModel& beside,
                                  const TeacherPlan* teacher) {
  std::int64_t tokens = 0;
  const std::int64_t budget = memory_budget(context);
  collectively(context.world, [&] {
    const std::int64_t least = drawn_unit(context.input, config, reader).most_tokens;
    const auto bytes = [&](std::int64_t count) {
      return planned_bytes(context, config, reader, count, beside, teacher);
    };
    const std::optional<std::int64_t> found = most_tokens_within(budget, least, bytes);
    if (!found) {
      throw core::Error(
          core::ExitCode::input,
          "[batch] memory allows " + core::format_bytes(budget) + " of a rank, but the longest sequence of " +
              core::counted(least, "token") + " alone takes " + core::format_bytes(bytes(least)) +
              ": allow more, spread the model over more ranks ([parallel] pipeline, zero), or set [model] "
              "recompute = \"blocks\".");
    }
    tokens = *found;
  });
  return static_cast<std::int64_t>(context.world.minimum(static_cast<double>(tokens)));
}

}  // namespace

std::int64_t gpu_micro_tokens(const RunContext& context, const model::ModelConfig& config,
                              const data::ShardReader& reader, std::int64_t memory, const TeacherPlan* teacher) {
  return largest_micro_tokens(
      usable(memory), [&](std::int64_t count) { return planned_bytes(context, config, reader, count, {}, teacher); });
}

std::int64_t usual_micro_tokens(const RunContext& context, const model::ModelConfig& config,
                                const data::ShardReader& reader, const BesideModel& beside,
                                const TeacherPlan* teacher) {
  if (context.input.batch.has_memory()) return tokens_within_budget(context, config, reader, beside, teacher);
  if (!context.on_gpus()) return least_micro_tokens;
  const double own =
      context.planned_machine ? context.planned_machine->memory : static_cast<double>(context.device.memory);
  const auto memory = static_cast<std::int64_t>(context.world.minimum(own));
  if (memory <= 0) return planned_micro_tokens;
  std::int64_t tokens = 0;
  collectively(context.world, [&] { tokens = gpu_micro_tokens(context, config, reader, memory, teacher); });
  return static_cast<std::int64_t>(context.world.minimum(static_cast<double>(tokens)));
}

}  // namespace bert_hpc::app
