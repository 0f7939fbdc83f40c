#include "app/session.hpp"
#include "app/checkpoint/checkpoint_contents.hpp"

#include <algorithm>

#include "app/engine/embedding_input.hpp"
#include "app/engine/hidden_states.hpp"
#include "app/engine/model_from_config.hpp"
#include "app/engine/model_loading.hpp"
#include "app/engine/padding.hpp"
#include "app/engine/planned_data.hpp"
#include "app/engine/precision.hpp"
#include "app/engine/run_memory.hpp"
#include "app/engine/step_loss.hpp"
#include "app/engine/training_settings.hpp"
#include "app/plan/micro_batch_size.hpp"
#include "app/report/describe.hpp"
#include "app/report/stage_table.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/train/shared_gradients.hpp"

namespace bert_hpc::app {

namespace {

/// Whether the data have targets for the mode: labels are unknown to predictions, next tokens are in the text.
bool has_targets(const config::Config& input) {
  return input.run.mode != "predict" || objectives::of(input).task->predicts_tokens();
}

}  // namespace

SessionData::SessionData(const RunContext& context) {
  collectively(context.world, [&] { stated = embedding_model(context.input, model_from_config(context.input)); });
  open_or_plan_data(sets, context, stated);
  if (context.invocation.validate) return;
  const bool is_first = comm::coordinates(context.grid, context.world.rank()).pipeline == 0;
  collectively(context.world, [&] { load_features(sets, is_first); });
}

data::ShardReader& SessionData::primary() const {
  return sets.train ? *sets.train : sets.test ? *sets.test : *sets.validation;
}

Session::Session(const RunContext& context, SessionData& data, bool trains)
    : sets(data.sets), timers(context.activity), context_(context), data_(data), trains_(trains) {
  if (!estimates()) groups.emplace(comm::make_process_groups(context.world, context.grid));
  make_model();
  plan_memory();
  if (trains_ && !estimates()) make_reducer();
}

int Session::micro_batches() const {
  return loader ? static_cast<int>(loader->bounds().replica_micro_batches) : 0;
}

core::ParameterStore::Memory Session::gradient_memory(const model::ModelConfig& config) const {
  if (!trains_) return {};
  return {.product_gradients = weight_gradient_type(context_.input, config, context_.grid, micro_batches())};
}

comm::GridCoordinates Session::own_coordinates() const {
  return comm::coordinates(context_.grid, std::min(context_.world.rank(), context_.ranks() - 1));
}

void Session::make_model() {
  const config::Config& input = context_.input;
  const data::ShardReader& reader = data_.primary();
  model::ModelConfig config;
  collectively(context_.world, [&] {
    config = finalize(input, data_.stated, reader.info(), reader.special_ids());
    if (trains_ && input.distill.teacher_scores) scores_plan.emplace(plan_scores(input, config, reader));
    if (!trains_ || !input.distill.teacher) return;
    teacher_plan.emplace(plan_teacher(input, config, reader));
    if (teacher_plan->projected > 0) config.projected_size = teacher_plan->request.config.hidden_size;
  });
  config.features = sets.features;
  usual_micro_tokens = app::usual_micro_tokens(
      context_, config, reader, [this](const ModelInstance& instance) { return beside_model(instance); },
      teacher_plan ? &*teacher_plan : nullptr);
  cut_model(config);
  // A training allocates its arenas below, as that communicates and so every rank must get there: the estimate finds
  // first what is wrong with the input.
  collectively(context_.world, [&] {
    batches = training_batches(input, config, drawn_unit(input, config, reader), own_coordinates().data, context_.grid,
                               pipeline.micro_batches, usual_micro_tokens);
    const objectives::Objective& objective = objectives::of(input);
    const objectives::RunFacts run{.task = input.task,
                                   .trains = trains_,
                                   .reader = reader,
                                   .label_names = config.label_names,
                                   .exported = config.prediction_range};
    if (objective.output_rules != nullptr) {
      output_rules = objective.output_rules(run);
      batches.label_scales = output_rules.scales;
    }
    config.prediction_range = objectives::exported_range(output_rules.scales);
    for (const auto* set : {&sets.train, &sets.validation, &sets.test}) {
      if (*set && objective.check_labels != nullptr) objective.check_labels(input.task, **set);
    }
    if (trains_) {
      if (objective.loss_options != nullptr) loss = objective.loss_options(run);
      loader.emplace(*sets.train, batches);
    }
    make_instance(config, !trains_ && !estimates(), gradient_memory(config));
    if (teacher_plan) {
      config::Config of_teacher = input;
      of_teacher.parallel.balance.clear();
      teacher_plan->balance = aligned_balance(teacher_plan->edges, pipeline.balance,
                                              balance_of_applied(teacher_plan->request.config, of_teacher));
    }
  });
  if (!trains_ || estimates()) return;
  core::ParameterStore::Memory memory = train::shard_memory(shard_settings(input), *groups->data);
  memory.product_gradients = gradient_memory(config).product_gradients;
  make_instance(config, true, memory);
}

/// Bounds of what memory_of() adds when the sizes of batches and messages are known.
std::int64_t Session::beside_model(const ModelInstance& instance) const {
  MemoryPlan memory;
  add_runtime_overhead(sets, instance, memory);
  if (!trains_) return total(memory);
  if (scores_plan) {
    for (auto& item : TeacherScores(*scores_plan, 0, true, false).memory()) memory.push_back(std::move(item));
  }
  const train::ShardPlan plan = train::plan_shards(instance.parameters, shards_of(instance), context_.grid.data);
  std::int64_t largest = 0;
  for (const auto& bucket : plan.buckets) largest = std::max(largest, bucket.size);
  // Prepared batches have some ten numbers a token, of two steps; shares of replicas differ.
  constexpr double bytes_of_token = 120;
  const double sequences = static_cast<double>(context_.input.batch.global) / context_.grid.data;
  const data::ShardInfo& info = data_.primary().info();
  const data::PaddingOptions padding = padding_options(context_.input, instance.config, data_.primary());
  // With padding the loader keeps room for the longest.
  const double length = padding.pads() ? static_cast<double>(padding.rows(info.max_length)) : info.mean_length();
  const auto prepared = static_cast<std::int64_t>(bytes_of_token * sequences * length);
  const std::int64_t messages = context_.grid.data > 1 ? 2 * largest * static_cast<std::int64_t>(sizeof(float)) : 0;
  return total(memory) + snapshot_bytes(plan) + prepared + messages;
}

void Session::cut_model(const model::ModelConfig& config) {
  const model::HeadKind& head = objectives::of(context_.input).head;
  data::ShardReader& reader = data_.primary();
  if (trains_) {
    pipeline = set_up_pipeline(context_, config, head, reader, groups ? &*groups : nullptr, usual_micro_tokens);
    return;
  }
  collectively(context_.world, [&] { pipeline.balance = balance_of_applied(config, context_.input); });
}

std::vector<std::int64_t> Session::balance_of_applied(const model::ModelConfig& config,
                                                      const config::Config& input) const {
  const data::ShardReader& reader = data_.primary();
  const data::PaddingOptions padding = padding_options(input, config, reader);
  return balance_by_cost(input, config, objectives::of(input).head, false, context_.grid.pipeline,
                         reader.info().mean_length(),
                         mean_rows(input, padding, reader, context_.grid.data, usual_micro_tokens));
}

void Session::make_instance(const model::ModelConfig& config, bool allocates,
                            const core::ParameterStore::Memory& memory) {
  model.emplace(model_request(context_.input, config, trains_, context_.on_gpus()), context_.grid, own_coordinates(),
                pipeline.balance, allocates, memory);
  objectives::require_foldable(output_rules.scales, model->plan.head);
  model->output_rules = output_rules;
}

void Session::plan_memory() {
  const config::Config& input = context_.input;
  const auto add = [&](std::optional<Evaluator>& evaluator, const std::unique_ptr<data::ShardReader>& reader,
                       const data::SourceRows& rows) {
    if (!reader || (!trains_ && reader.get() != &data_.primary())) return;
    data::BatchLoaderOptions options = batches;
    options.plan.padding = padding_options(input, model->config, *reader);
    const std::int64_t longest = options.plan.padding.rows(reader->info().max_length);
    const std::int64_t tokens = evaluation_micro_tokens(input, longest, usual_micro_tokens);
    evaluator.emplace(*model, *reader, rows, input, data::evaluation_options(options, tokens), has_targets(input),
                      sets.hdf5);
    evaluation_bounds = layers::larger(evaluation_bounds, evaluator->bounds());
  };
  collectively(context_.world, [&] {
    if (loader) bounds = model_bounds(*loader);
    if (input.embeds()) {
      add_embedders();
    } else {
      add(validation, sets.validation, sets.validation_rows);
      add(test, sets.test, sets.test_rows);
    }
    model->allocate(bounds, micro_batches(), evaluation_bounds);
    if (teacher_plan && !estimates()) {
      teacher.emplace(*teacher_plan, context_.grid, own_coordinates(), bounds, micro_batches(), true);
    }
    if (scores_plan && !estimates()) {
      scores.emplace(*scores_plan, bounds.selected, model->stages.back().range().head, true);
    }
    if (estimates()) load_notes = check_pretrained(*model, input);
  });
}

EmbeddingFormat Session::embedding_format() const {
  const config::Embed& embed = context_.input.embed;
  return {.type = embed.type,
          .dimensions = embed.dimensions.value_or(model->config.hidden_size),
          .normalize = embed.normalize.value_or(false),
          .gzip = embed.compression == "gzip",
          .of_tokens = embed.pooling == "tokens"};
}

void Session::add_embedders() {
  const auto add = [&](const char* split, const std::unique_ptr<data::ShardReader>& reader) {
    if (!reader) return;
    data::BatchLoaderOptions options = batches;
    options.plan.padding = padding_options(context_.input, model->config, *reader);
    const std::int64_t longest = options.plan.padding.rows(reader->info().max_length);
    const std::int64_t tokens = evaluation_micro_tokens(context_.input, longest, usual_micro_tokens);
    embedders.emplace_back(split, std::make_unique<Embedder>(*model, *reader, embedding_format(),
                                                             data::evaluation_options(options, tokens), sets.hdf5));
    evaluation_bounds = layers::larger(evaluation_bounds, embedders.back().second->bounds());
  };
  add("train", sets.train);
  add("validation", sets.validation);
  add("test", sets.test);
}

void Session::make_reducer() {
  const core::ParameterStore& parameters = model->parameters;
  const train::ShardSettings shards = shards_of(*model);
  const std::vector<core::ParameterSpec> all = model->all_parameters();
  const std::string embeddings = model::word_embeddings_name(model->config);
  std::vector<std::string> summed_late = train::shared_parameters(all, embeddings);
  if (model->plan.head.ties_word_embeddings) summed_late.push_back(embeddings);
  const train::NormScope scope =
      train::norm_scope(parameters.slices(), all, context_.world, model->coordinates.tensor, summed_late);
  comm::Communicator& replicas = *groups->data;
  sums = train::make_data_parallel(replicas, model->parameters, shards, scope);
  if (shards.reproducible) return;
  std::int64_t largest = 0;
  for (const auto& bucket : sums->plan().buckets) largest = std::max(largest, bucket.size);
  if (largest > 0) message_bytes = replicas.reserve_sums(largest / replicas.size());
}

void Session::connect() {
  if (trains_ && core::is_gpu_build()) {
    // Three passes and four waits of each micro-batch on each part of the model; sections around them, with those of
    // the step before.
    const std::size_t laps =
        8 * static_cast<std::size_t>(micro_batches()) * std::max<std::size_t>(1, model->parts.size()) + 32;
    timers.use_device_clock(core::make_device_clock(2 * laps), laps);
  }
  model->connect(*groups, timers);
  if (teacher) teacher->connect(*groups, timers);
}

train::ShardSettings Session::shards_of(const ModelInstance& instance) const {
  train::ShardSettings shards = shard_settings(context_);
  shards.segments = instance.segments();
  shards.units = instance.units();
  if (instance.ties_gradients()) shards.tied = model::word_embeddings_name(instance.config);
  shards.first_unit_held = instance.trains_tied_embeddings() && instance.parts.size() == 1;
  return shards;
}

std::optional<train::StepLossSettings> Session::step_loss(const ModelInstance& instance) const {
  if (!loader) return std::nullopt;
  return step_loss_settings(context_.input, instance, loader->bounds().replica_sequences);
}

std::optional<train::DistillationSettings> Session::distillation() const {
  if (!teacher_plan && !scores_plan) return std::nullopt;
  return distillation_settings(context_.input, bounds.selected);
}

MemoryPlan Session::teacher_memory(const comm::GridCoordinates& coordinates) const {
  return Teacher(*teacher_plan, context_.grid, coordinates, bounds, micro_batches(), false).memory();
}

MemoryPlan Session::memory_of(const ModelInstance& instance) const {
  MemoryPlan memory;
  std::int64_t snapshot = 0;
  if (trains_) {
    const train::ShardPlan plan = train::plan_shards(instance.parameters, shards_of(instance), context_.grid.data);
    memory = plan.memory();
    snapshot = snapshot_bytes(plan);
  }
  for (auto& item : model_memory(instance, trains_)) memory.push_back(std::move(item));
  if (message_bytes > 0) memory.emplace_back("messages", message_bytes);
  if (trains_) {
    memory.emplace_back("prepared batches", loader->memory_bytes());
    if (const auto settings = step_loss(instance)) {
      memory.emplace_back("outputs of a whole step", train::StepLoss::bytes(*settings, context_.grid.data));
    }
    if (teacher_plan) {
      for (auto& item : teacher_memory(instance.coordinates)) memory.push_back(std::move(item));
    }
    if (scores_plan) {
      const bool has_head = instance.stages.back().range().head;
      for (auto& item : TeacherScores(*scores_plan, bounds.selected, has_head, false).memory()) {
        memory.push_back(std::move(item));
      }
    }
    const std::vector<core::ParameterSpec> all = instance.all_parameters();
    const auto shared = train::shared_parameters(all, model::word_embeddings_name(instance.config));
    if (!shared.empty() && !instance.shared_sums(context_.input.run.reproducible).all_here) {
      memory.emplace_back("gradients of shared parameters", train::exchanged_bytes(all, shared));
    }
    memory.emplace_back("snapshot for checkpoints", snapshot);
  }
  std::int64_t embedded = 0;
  for (const auto& [split, embedder] : embedders) embedded = std::max(embedded, embedder->step_bytes());
  if (embedded > 0) memory.emplace_back("embeddings of a step", embedded);
  add_runtime_overhead(sets, instance, memory);
  return memory;
}

std::int64_t Session::most_bytes_with(const config::Config& input) const {
  std::int64_t most = 0;
  for (int stage = 0; stage < context_.grid.pipeline; ++stage) {
    ModelInstance other(model_request(input, model->config, trains_), context_.grid,
                        {.data = 0, .pipeline = stage, .tensor = 0}, pipeline.balance, false,
                        gradient_memory(model->config));
    other.allocate(bounds, micro_batches(), evaluation_bounds);
    most = std::max(most, total(memory_of(other)));
  }
  return most;
}

StageFacts Session::facts_at(const comm::GridCoordinates& coordinates) const {
  if (coordinates == model->coordinates) return stage_facts(*model, memory());
  ModelInstance other(model_request(context_.input, model->config, trains_), context_.grid, coordinates,
                      pipeline.balance, false, gradient_memory(model->config));
  other.allocate(bounds, micro_batches(), evaluation_bounds);
  return stage_facts(other, memory_of(other));
}

void Session::describe(const std::vector<std::pair<std::string, std::string>>& lines) const {
  const std::vector<StageFacts> stages =
      stage_table(context_, [this](const comm::GridCoordinates& coordinates) { return facts_at(coordinates); });
  auto all = stage_lines(context_.grid, stages);
  all.insert(all.end(), lines.begin(), lines.end());
  const auto add_windows = [&](const char* split, const std::optional<Evaluator>& evaluator,
                               const std::unique_ptr<data::ShardReader>& reader, const data::SourceRows& rows) {
    if (!evaluator) return;
    const std::string text = objectives::windows_text(context_.input.task, rows, reader->samples());
    if (!text.empty()) all.emplace_back(split, text);
  };
  add_windows("validation", validation, sets.validation, sets.validation_rows);
  add_windows("test", test, sets.test, sets.test_rows);
  describe_run(context_, *model, sets, memory(), most_bytes(stages), all);
}

}  // namespace bert_hpc::app
