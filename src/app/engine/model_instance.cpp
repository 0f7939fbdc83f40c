#include "app/engine/model_instance.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::app {
namespace {

std::vector<model::ModelRange> cut(const ModelRequest& request, int pipeline, std::span<const std::int64_t> balance) {
  const int count = static_cast<int>(balance.size());
  core::require(count > 0 && count % pipeline == 0, "model: each stage has equally many parts");
  const model::ModelPlan& plan = request.plan;
  std::vector<model::ModelRange> parts = model::partition(count, balance, model::equal_costs(plan.sublayer_count()));
  // If the bits may not depend on the layout, one stage sums as two would.
  parts[0].separate_decoder = count == 1 && request.training && request.reproducible && plan.head.ties_word_embeddings;
  model::set_sends_gradient(parts, plan);
  return parts;
}

core::ParameterStore::Arenas arenas_for(const ModelRequest& request, bool allocates, int replicas) {
  using Arenas = core::ParameterStore::Arenas;
  if (!allocates) return Arenas::none;
  const bool values_alone = !request.training || train::shards_gradients(request.training->shards, replicas);
  return values_alone ? Arenas::values : Arenas::with_gradients;
}

core::ParameterStore::Alignment alignment_of(const ModelRequest& request, int replicas) {
  if (!request.training) return {};
  return train::shard_alignment(request.reproducible, replicas, ops::have_blocks(request.training->shards.states));
}

/// A model that is only applied runs forward passes, which need no order of passes but that of its parts.
train::ScheduleKind schedule_of(const ModelRequest& request, std::size_t virtual_stages) {
  if (request.training) return request.training->schedule;
  return virtual_stages > 1 ? train::ScheduleKind::interleaved : train::ScheduleKind::one_f_one_b;
}

}  // namespace

ModelInstance::ModelInstance(const ModelRequest& request, const comm::GridShape& shape, const comm::GridCoordinates& at,
                             std::span<const std::int64_t> balance, bool allocates_arenas,
                             const core::ParameterStore::Memory& memory)
    : objective(request.objective),
      storage(request.precision.storage),
      config(request.config),
      plan(request.plan),
      trains(request.training.has_value()),
      allocates(allocates_arenas),
      grid(shape),
      coordinates(at),
      parts(cut(request, grid.pipeline, balance)),
      parameters(own_parameters(), arenas_for(request, allocates, grid.data), alignment_of(request, grid.data), memory),
      kernels(request, memory.product_gradients) {
  const std::vector<model::ModelRange> own = own_parts();
  stages.reserve(own.size());
  for (const model::ModelRange& part : own) {
    stages.emplace_back(plan, part, parameters, tensor_group());
  }
  pipeline_settings_ = {.kind = schedule_of(request, own.size()),
                        .stages = grid.pipeline,
                        .stage = coordinates.pipeline,
                        .virtual_stages = static_cast<int>(own.size()),
                        .micro_batches = 1,
                        .replaces_first = train::replaces_first_gradients(core::is_gpu_build(), request.reproducible) ||
                                          memory.product_gradients != core::DataType::fp32,
                        .looks_ahead = request.training && request.training->looks_ahead};
  require_precision(request.precision, config, grid.tensor, trains);
  if (request.precision.fp8 && trains) kernels.make_fp8(stages, allocates);
}

std::vector<model::ModelRange> ModelInstance::own_parts() const {
  std::vector<model::ModelRange> own;
  for (auto part = static_cast<std::size_t>(coordinates.pipeline); part < parts.size();
       part += static_cast<std::size_t>(grid.pipeline)) {
    own.push_back(parts[part]);
  }
  return own;
}

std::vector<core::ParameterSpec> ModelInstance::parameters_of(const model::ModelRange& part,
                                                              const layers::TensorRank& share) const {
  return model::model_parameters(plan, part, share);
}

std::vector<core::ParameterSpec> ModelInstance::own_parameters() const {
  std::vector<core::ParameterSpec> all;
  for (const model::ModelRange& part : own_parts()) {
    for (core::ParameterSpec& spec : parameters_of(part, tensor_rank())) all.push_back(std::move(spec));
  }
  return all;
}

std::vector<core::ParameterSpec> ModelInstance::all_parameters() const {
  return parameters_of(model::whole(plan));
}

train::SharedGradients::Sums ModelInstance::shared_sums(bool reproducible) const {
  // Reproducible sums are whole on every replica, others in pieces.
  return {.all_here = grid.pipeline == 1 && (reproducible || grid.data == 1),
          .counts = !reproducible || coordinates.data == 0,
          .tensor_rank = coordinates.tensor};
}

std::int64_t ModelInstance::outputs() const {
  return plan.head.outputs;
}

std::int64_t ModelInstance::own_outputs() const {
  return objective.head.predicts_tokens ? tensor_rank().share(outputs()) : outputs();
}

bool ModelInstance::trains_tied_embeddings() const {
  return plan.head.ties_word_embeddings && (!plan.trains || plan.trains(plan.head.word_embeddings));
}

bool ModelInstance::ties_gradients() const {
  return trains_tied_embeddings() && (parts.size() > 1 || parts[0].separate_decoder);
}

std::vector<std::int64_t> ModelInstance::segments() const {
  std::vector<std::int64_t> begins;
  for (const model::Stage& stage : stages) begins.push_back(stage.arena_begin());
  // A stage without trainable parameters is empty: it begins where the next one does.
  for (std::size_t i = begins.size(); i-- > 1;) begins[i - 1] = std::min(begins[i - 1], begins[i]);
  return begins;
}

std::vector<train::ArenaRange> ModelInstance::replaced_gradients() const {
  if (!pipeline_settings_.replaces_first) return {};
  return train::replaced_gradients(parameters);
}

std::vector<std::int64_t> ModelInstance::units() const {
  std::vector<std::int64_t> begins;
  for (const model::Stage& stage : stages) {
    for (const std::int64_t begin : stage.finished_begins()) begins.push_back(begin);
  }
  return begins;
}

void ModelInstance::allocate(const layers::BatchBounds& training, int micro_batches,
                             const layers::BatchBounds& evaluation) {
  pipeline_settings_.micro_batches = std::max(1, micro_batches);
  const std::int64_t dropout_tiles = kernels.attention->dropout_tiles(training.max_length, config.head_dim());
  if (training.tokens > 0) {
    layers::BatchBounds planned = training;
    planned.dropout_tiles = dropout_tiles;
    model::Stage::plan(stages, workspace, planned, train::training_memory(pipeline_settings_));
  }
  layers::BatchBounds forward_only = evaluation;
  if (pipeline_settings_.looks_ahead) {
    forward_only = layers::larger(training, evaluation);
    forward_only.dropout_tiles = dropout_tiles;
  }
  if (forward_only.tokens > 0) {
    model::Stage::plan(stages, workspace, forward_only, train::evaluation_memory(pipeline_settings_));
  }
  exchanged_rows_ = layers::larger(training, evaluation).tokens;
  if (grid.tensor > 1 && plan.low_rank) {
    exchanged_rows_ = std::max(exchanged_rows_, layers::exchanged_rows(plan.low_rank->rank));
  }
  kernels.reserve(parameters, stages, config.head_dim(), tensor_group(), training, evaluation, storage, allocates);
  if (!allocates) return;
  // The ranks of a tensor group compute parts of the head each for itself and must get the same: what is chosen by time
  // may differ between them.
  if (trains && grid.tensor == 1) kernels.tune(stages, training);
  workspace.allocate();
}

void ModelInstance::connect(const comm::ProcessGroups& groups, core::Timers& timers) {
  groups_ = &groups;
  exchange_.connect(*groups.tensor, exchanged_rows_, plan.most_exchanged_columns(), storage);
  groups.pipeline->reserve_messages(message_bytes());
  pipeline_.emplace(pipeline_settings_, stages, workspace, *groups.pipeline, timers);
}

std::int64_t ModelInstance::message_bytes() const {
  const std::int64_t rows = (exchanged_rows_ + grid.tensor - 1) / grid.tensor;
  return rows * plan.most_columns() * core::bytes_of(storage);
}

}  // namespace bert_hpc::app
