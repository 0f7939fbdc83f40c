#include "bert_hpc/app/engine/model_instance.hpp"

#include <algorithm>

#include "bert_hpc/app/engine/data_sets.hpp"
#include "bert_hpc/app/engine/model_from_config.hpp"
#include "bert_hpc/app/engine/precision.hpp"
#include "bert_hpc/app/engine/step_loss.hpp"
#include "bert_hpc/app/engine/training_settings.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/train/shard_plan.hpp"

namespace bert_hpc::app {
namespace {

std::vector<model::ModelRange> cut(const config::Config& input, const model::ModelPlan& plan, bool trains, int pipeline,
                                   std::span<const std::int64_t> balance) {
  const int count = pipeline * static_cast<int>(input.parallel.virtual_stages);
  std::vector<model::ModelRange> parts = model::partition(count, balance, model::equal_costs(plan.sublayer_count()));
  // Where the bits may not depend on the layout, one stage sums as two would.
  parts[0].decoder_apart = count == 1 && trains && input.run.reproducible && plan.head.kind.ties_word_embeddings;
  model::set_sends_gradient(parts, plan);
  return parts;
}

core::ParameterStore::Arenas arenas_for(const ModelUse& use, const config::Config& input, int replicas) {
  using Arenas = core::ParameterStore::Arenas;
  if (!use.allocates) return Arenas::none;
  const bool values_alone = !use.trains || train::shards_gradients(shard_settings(input), replicas);
  return values_alone ? Arenas::values : Arenas::with_gradients;
}

}  // namespace

ModelInstance::ModelInstance(const config::Config& input, const model::ModelConfig& model_config, ModelUse model_use,
                             const comm::GridShape& shape, const comm::GridCoordinates& at,
                             std::span<const std::int64_t> balance, const core::ParameterStore::Memory& memory)
    : objective(objectives::named(input.task.name)),
      storage(storage_type(input)),
      config(model_config),
      plan(plan_of(input, config, objective.head, model_use.trains)),
      use(model_use),
      grid(shape),
      place(at),
      parts(cut(input, plan, use.trains, grid.pipeline, balance)),
      parameters(own_parameters(), arenas_for(use, input, grid.data),
                 train::shard_alignment(input.run.reproducible, grid.data, ops::have_blocks(optimizer_states(input))),
                 memory),
      kernels(input, use.trains, memory.product_gradients) {
  const std::vector<model::ModelRange> own = own_parts();
  stages.reserve(own.size());
  for (const model::ModelRange& part : own) {
    stages.emplace_back(plan, part, parameters, tensor_group());
  }
  pipeline_settings_ = {
      .kind = schedule_of(input),
      .stages = grid.pipeline,
      .stage = place.pipeline,
      .virtual_stages = static_cast<int>(own.size()),
      .micro_batches = 1,
      .replaces_first = train::replaces_first_gradients(core::is_gpu_build(), input.run.reproducible) ||
                        memory.product_gradients != core::DataType::fp32};
  require_precision(input, config, grid.tensor, use.trains);
  if (input.precision.compute == "fp8" && use.trains) kernels.make_fp8(stages, use.allocates);
}

std::vector<model::ModelRange> ModelInstance::own_parts() const {
  std::vector<model::ModelRange> own;
  for (auto part = static_cast<std::size_t>(place.pipeline); part < parts.size();
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
    for (core::ParameterSpec& spec : parameters_of(part, tensor_place())) all.push_back(std::move(spec));
  }
  return all;
}

std::vector<core::ParameterSpec> ModelInstance::all_parameters() const {
  return parameters_of(model::whole(plan));
}

std::int64_t ModelInstance::outputs() const {
  return plan.head.outputs;
}

bool ModelInstance::trains_tied_embeddings() const {
  return objective.head.ties_word_embeddings && (!plan.trains || plan.trains(plan.head.word_embeddings));
}

bool ModelInstance::ties_gradients() const {
  return trains_tied_embeddings() && (parts.size() > 1 || parts[0].decoder_apart);
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
  if (training.tokens > 0) {
    layers::BatchBounds planned = training;
    planned.dropout_tiles = kernels.attention->dropout_tiles(training.max_length, config.head_dim());
    model::Stage::plan(stages, workspace, planned, train::training_memory(pipeline_settings_));
  }
  if (evaluation.tokens > 0) {
    model::Stage::plan(stages, workspace, evaluation, train::evaluation_memory(pipeline_settings_));
  }
  exchanged_rows_ = larger(training, evaluation).tokens;
  if (grid.tensor > 1 && plan.low_rank) {
    exchanged_rows_ = std::max(exchanged_rows_, layers::exchanged_rows(plan.low_rank->rank));
  }
  kernels.reserve(parameters, stages, config.head_dim(), tensor_group(), training, evaluation, storage, use.allocates);
  if (!use.allocates) return;
  // The ranks of a tensor group compute parts of the head each for itself and must get the same: what is chosen by time
  // may differ between them.
  if (use.trains && grid.tensor == 1) kernels.tune(stages, training);
  workspace.allocate();
}

void ModelInstance::set_training_loss(const TrainingLoss& loss) {
  ops::CrossEntropyOptions options = {.label_smoothing = loss.label_smoothing, .focal_gamma = loss.focal_gamma};
  if (!loss.class_weights.empty()) {
    class_weights_ = core::Buffer<float>(static_cast<std::int64_t>(loss.class_weights.size()));
    core::copy_to_device(loss.class_weights.data(), class_weights_.data(), loss.class_weights.size() * sizeof(float));
    options.class_weights = class_weights_.data();
  }
  for (model::Stage& stage : stages) stage.set_loss_options(options);
}

void ModelInstance::connect(const comm::ProcessGroups& groups, core::Timers& timers) {
  groups_ = &groups;
  exchange_.connect(*groups.tensor, exchanged_rows_, config.hidden_size, storage);
  groups.pipeline->reserve_messages(message_bytes());
  pipeline_.emplace(pipeline_settings_, stages, workspace, *groups.pipeline, timers);
}

std::int64_t ModelInstance::message_bytes() const {
  const std::int64_t rows = (exchanged_rows_ + grid.tensor - 1) / grid.tensor;
  return rows * config.hidden_size * core::bytes_of(storage);
}

}  // namespace bert_hpc::app
