#include "bert_hpc/app/engine/assembly.hpp"

#include <algorithm>

#include "bert_hpc/app/engine/data_sets.hpp"
#include "bert_hpc/app/engine/label_unit.hpp"
#include "bert_hpc/app/engine/model_labels.hpp"
#include "bert_hpc/app/engine/training_settings.hpp"
#include "bert_hpc/app/run/collective.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/train/shard_plan.hpp"

namespace bert_hpc::app {
namespace {

std::int64_t labels_of(const model::ModelConfig& config) {
  return std::max<std::int64_t>(1, config.num_labels());
}

std::vector<model::ModelRange> cut(const config::Config& input, const model::ModelConfig& config,
                                   const model::HeadKind& head, bool trains, int pipeline,
                                   std::span<const std::int64_t> balance) {
  const int count = pipeline * static_cast<int>(input.parallel.virtual_stages);
  std::vector<model::ModelRange> parts = model::partition(config, count, balance, {});
  // Where the bits may not depend on the layout, one stage sums as two would.
  parts[0].decoder_apart = count == 1 && trains && input.run.reproducible && head.ties_word_embeddings;
  return parts;
}

core::ParameterStore::Arenas arenas_for(Assembly::Purpose purpose, const config::Config& input, int replicas) {
  using Arenas = core::ParameterStore::Arenas;
  if (purpose == Assembly::Purpose::estimate) return Arenas::none;
  const bool values_alone =
      purpose == Assembly::Purpose::evaluation || train::shards_gradients(shard_settings(input, 1), replicas);
  return values_alone ? Arenas::values : Arenas::with_gradients;
}

}  // namespace

core::DataType storage_type(const config::Config& input) {
  const std::string& compute = input.precision.compute;
  return compute == "bf16" || compute == "fp8" ? core::DataType::bf16
         : compute == "fp16"                   ? core::DataType::fp16
                                               : core::DataType::fp32;
}

ops::ProductSettings product_settings(const config::Config& input, core::DataType weight_gradients) {
  // What is not trained is the same in every run.
  return {.compute = storage_type(input),
          .tf32 = input.precision.compute == "tf32",
          .reproducible = input.run.reproducible || input.run.mode != "train",
          .weight_gradients = weight_gradients};
}

core::DataType weight_gradient_type(const config::Config& input, const comm::GridShape& grid, int micro_batches) {
  return train::weight_gradient_type({.compute = storage_type(input),
                                      .gpu = core::is_gpu_build(),
                                      .reproducible = input.run.reproducible,
                                      .offload = shard_settings(input, 1).offload,
                                      .fp8 = input.precision.compute == "fp8",
                                      .micro_batches = micro_batches,
                                      .replicas = grid.data});
}

Assembly::Assembly(const config::Config& input, const model::ModelConfig& model_config, Purpose for_what,
                   const comm::GridShape& shape, const comm::GridPlace& at, std::span<const std::int64_t> balance,
                   const core::ParameterStore::Memory& memory)
    : objective(objectives::named(input.task.name)),
      storage(storage_type(input)),
      config(model_config),
      purpose(for_what),
      grid(shape),
      place(at),
      parts(cut(input, config, objective.head, input.run.mode == "train", grid.pipeline, balance)),
      parameters(own_parameters(), arenas_for(for_what, input, grid.data),
                 train::shard_alignment(input.run.reproducible, grid.data), memory),
      products(ops::make_matrix_product("", product_settings(input, memory.product_gradients))),
      attention(ops::make_attention(input.model.attention, storage)) {
  const std::vector<model::ModelRange> own = own_parts();
  stages.reserve(own.size());
  for (const model::ModelRange& part : own) {
    stages.emplace_back(config, objective.head, labels_of(config), part, parameters,
                        layers::TensorGroup(tensor_place(), exchange_), storage);
  }
  pipeline_settings_ = {
      .kind = train::schedule_kind(input.parallel.pipeline_schedule).value(),
      .stages = grid.pipeline,
      .stage = place.pipeline,
      .virtual_stages = static_cast<int>(own.size()),
      .micro_batches = 1,
      .replaces_first = train::replaces_first_gradients(core::is_gpu_build(), input.run.reproducible) ||
                        memory.product_gradients != core::DataType::fp32};
  require_precision(input);
  if (input.precision.compute == "fp8" && purpose != Purpose::evaluation && input.run.mode == "train") make_fp8(input);
}

void Assembly::require_precision(const config::Config& input) const {
  const std::string& compute = input.precision.compute;
  if (compute == "tf32" && !ops::has_tf32()) {
    throw core::Error(
        core::ExitCode::input,
        "[precision] compute = \"tf32\" needs an NVIDIA GPU, and this build computes on CPUs: use \"fp32\", or "
        "\"bf16\" for less memory and time, or a CUDA build (jobs/build.sh --cuda).");
  }
  if (storage != core::DataType::fp32 && config.hidden_size % 2 != 0) {
    throw core::Error(core::ExitCode::input, "[precision] compute = \"" + compute +
                                                 "\" needs an even hidden_size; this model's is " +
                                                 std::to_string(config.hidden_size) + ": use \"fp32\".");
  }
  const std::int64_t multiple = ops::fp8_granularity * grid.tensor;
  if (compute != "fp8" || input.run.mode != "train" ||
      (config.hidden_size % multiple == 0 && config.intermediate_size % multiple == 0))
    return;
  throw core::Error(
      core::ExitCode::input,
      "[precision] compute = \"fp8\" needs a hidden_size and an intermediate_size that are multiples of " +
          std::to_string(ops::fp8_granularity) + " on every rank, so of " + std::to_string(multiple) +
          " here; this model's are " + std::to_string(config.hidden_size) + " and " +
          std::to_string(config.intermediate_size) + ": use \"bf16\".");
}

void Assembly::make_fp8(const config::Config& input) {
  std::vector<ops::Fp8Layer> all;
  for (const model::Stage& stage : stages) {
    for (layers::LinearWeight& w : stage.block_weights()) all.push_back({w.slice, std::move(w.name), w.weights});
  }
  fp8 = ops::make_fp8_product(
      *products, std::move(all),
      {.allocates = purpose != Purpose::estimate, .reproducible = product_settings(input).reproducible});
}

std::vector<model::ModelRange> Assembly::own_parts() const {
  std::vector<model::ModelRange> own;
  for (auto part = static_cast<std::size_t>(place.pipeline); part < parts.size();
       part += static_cast<std::size_t>(grid.pipeline)) {
    own.push_back(parts[part]);
  }
  return own;
}

std::vector<core::ParameterSpec> Assembly::parameters_of(const model::ModelRange& part,
                                                         const layers::TensorPlace& share) const {
  return model::model_parameters(config, objective.head, labels_of(config), part, share);
}

std::vector<core::ParameterSpec> Assembly::own_parameters() const {
  std::vector<core::ParameterSpec> all;
  for (const model::ModelRange& part : own_parts()) {
    for (core::ParameterSpec& spec : parameters_of(part, tensor_place())) all.push_back(std::move(spec));
  }
  return all;
}

std::vector<core::ParameterSpec> Assembly::all_parameters() const {
  return parameters_of(model::whole(config));
}

std::int64_t Assembly::outputs() const {
  return objective.head.outputs(config.vocab_size, labels_of(config));
}

bool Assembly::ties_gradients() const {
  return objective.head.ties_word_embeddings && (parts.size() > 1 || parts[0].decoder_apart);
}

std::vector<std::int64_t> Assembly::segments() const {
  std::vector<std::int64_t> begins;
  for (const model::Stage& stage : stages) begins.push_back(stage.arena_begin());
  return begins;
}

std::vector<train::ArenaRange> Assembly::replaced_gradients() const {
  if (!pipeline_settings_.replaces_first) return {};
  return train::replaced_gradients(parameters);
}

std::vector<std::int64_t> Assembly::units() const {
  std::vector<std::int64_t> begins;
  for (const model::Stage& stage : stages) {
    for (const std::int64_t begin : stage.finished_begins()) begins.push_back(begin);
  }
  return begins;
}

void Assembly::allocate(const layers::BatchBounds& training, int micro_batches, const layers::BatchBounds& evaluation) {
  pipeline_settings_.micro_batches = std::max(1, micro_batches);
  if (training.tokens > 0) {
    layers::BatchBounds planned = training;
    planned.dropout_tiles = attention->dropout_tiles(training.max_length, config.head_dim());
    model::Stage::plan(stages, workspace, planned, train::training_memory(pipeline_settings_));
  }
  if (evaluation.tokens > 0) {
    model::Stage::plan(stages, workspace, evaluation, train::evaluation_memory(pipeline_settings_));
  }
  const layers::BatchBounds bounds = larger(training, evaluation);
  exchanged_rows_ = bounds.tokens;
  // FP8 products have their own of nearly all weights, and leave few to these.
  if (!fp8) kept_weights_bytes_ = products->keep_weights(parameters);
  for (const ops::ProductExtents& e : model::product_extents(stages, bounds)) scratch_bytes_ = products->reserve(e);
  for (const model::Stage& stage : stages) {
    if (!fp8) break;
    const std::vector<layers::LinearWeight> weights = stage.block_weights();
    for (const ops::ProductExtents& e : model::product_extents(weights, training)) fp8_bytes_ = fp8->reserve(e);
  }
  scratch_bytes_ += attention->reserve(bounds.max_length, config.head_dim());
  if (purpose == Purpose::estimate) return;
  if (purpose == Purpose::training) tune(training);
  workspace.allocate();
}

void Assembly::tune(const layers::BatchBounds& training) {
  // The ranks of a tensor group compute parts of the head each for itself and must get the same: what is chosen by time
  // may differ between them.
  if (grid.tensor > 1) return;
  const auto work = [](const ops::ProductExtents& e) {
    return static_cast<double>(e.rows) * static_cast<double>(e.in * e.out);
  };
  const std::vector<ops::ProductExtents> all = model::product_extents(stages, training);
  double most = 0;
  for (const ops::ProductExtents& e : all) most = std::max(most, work(e));
  // Trying takes time and memory: products of a few rows, such as a classifier's, take next to none of a step.
  constexpr double worth_trying = 0.01;
  for (const ops::ProductExtents& e : all) {
    if (work(e) >= worth_trying * most) products->tune(e);
  }
}

void Assembly::connect(const comm::ProcessGroups& groups, core::Timers& timers) {
  groups_ = &groups;
  exchange_.connect(*groups.tensor, exchanged_rows_, config.hidden_size, storage);
  groups.pipeline->reserve_messages(message_bytes());
  pipeline_.emplace(pipeline_settings_, stages, workspace, *groups.pipeline, timers);
}

std::int64_t Assembly::message_bytes() const {
  const std::int64_t rows = (exchanged_rows_ + grid.tensor - 1) / grid.tensor;
  return rows * config.hidden_size * core::bytes_of(storage);
}

std::int64_t total(const MemoryPlan& plan) {
  std::int64_t bytes = 0;
  for (const auto& [name, part] : plan) bytes += part;
  return bytes;
}

MemoryPlan Assembly::memory(bool trains) const {
  const std::int64_t arena = parameters.arena_size() * static_cast<std::int64_t>(sizeof(float));
  MemoryPlan plan;
  if (!trains) plan.emplace_back("parameters", arena);  // with gradients and states they are in the shard plan
  std::int64_t dropout_bytes = 0;
  for (const model::Stage& stage : stages) dropout_bytes += stage.dropout_bytes();
  plan.emplace_back("activations", workspace.bytes() - dropout_bytes);
  if (dropout_bytes > 0) plan.emplace_back("dropout's decisions in attention", dropout_bytes);
  if (grid.tensor > 1) {
    plan.emplace_back("token rows shared by tensor ranks",
                      layers::TensorExchange::bytes(exchanged_rows_, config.hidden_size, grid.tensor, storage));
  }
  if (grid.pipeline > 1) {
    plan.emplace_back("buffers for messages between stages", comm::message_room_bytes(message_bytes(), grid.pipeline));
  }
  if (kept_weights_bytes_ > 0) plan.emplace_back("weights in 16 bits", kept_weights_bytes_);
  plan.emplace_back("packed weights and scratch", scratch_bytes_);
  if (fp8) plan.emplace_back("FP8 operands and scales", fp8_bytes_);
  return plan;
}

std::string Assembly::load_values(const config::Config& input) {
  std::string told;
  collectively(groups_->world, [&] {
    if (place.data != 0) return;
    const auto seed = static_cast<std::uint64_t>(input.run.seed);
    if (!input.model.pretrained) {
      model::initialize_parameters(parameters, config, seed);
      return;
    }
    model::LoadOptions options{.family = config.family};
    if (purpose == Purpose::training) {
      options.may_be_missing = model::head_prefixes(objective.head, config.family);
      options.replace_other_shapes = true;
    }
    // What a stage does not use another one does: only a look at the whole tells what is new and what is not used.
    if (groups_->world.rank() == 0) {
      const model::LoadReport report = model::check_hf_weights(*input.model.pretrained, all_parameters(), options);
      told = report.text();
      if (objective.task->has_label_names()) {
        told += kept_classifier(*input.model.pretrained, config.label_names, report.newly_initialised);
      }
    }
    const model::LoadReport report = model::load_hf_weights(*input.model.pretrained, parameters, options);
    head_into_training_unit(label_scale, report.newly_initialised, parameters);
    if (!report.newly_initialised.empty()) {
      model::initialize_parameters(parameters, config, seed, report.newly_initialised);
    }
  });
  groups_->data->broadcast(parameters.change_values(), 0);
  return told;
}

void Assembly::load_folder(const std::string& folder) {
  collectively(groups_->world, [&] {
    if (place.data != 0) return;
    model::load_hf_weights(folder, parameters, {.family = config.family});
    head_into_training_unit(label_scale, {}, parameters);
  });
  groups_->data->broadcast(parameters.change_values(), 0);
}

}  // namespace bert_hpc::app
