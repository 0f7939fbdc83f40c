// Mode "train". Set-up first: data, model, all memory; then the steps with evaluations in between; then what remains.
#include <algorithm>
#include <cmath>
#include <optional>

#include "bert_hpc/app/application.hpp"
#include "bert_hpc/app/collective.hpp"
#include "bert_hpc/app/data_sets.hpp"
#include "bert_hpc/app/describe.hpp"
#include "bert_hpc/app/evaluator.hpp"
#include "bert_hpc/app/pipeline_setup.hpp"
#include "bert_hpc/app/progress.hpp"
#include "bert_hpc/app/results.hpp"
#include "bert_hpc/app/simulation.hpp"
#include "bert_hpc/app/stage_table.hpp"
#include "bert_hpc/app/step_trace.hpp"
#include "bert_hpc/app/terminal.hpp"
#include "bert_hpc/app/timing_table.hpp"
#include "bert_hpc/app/trainer.hpp"
#include "bert_hpc/core/text.hpp"
#include "training_settings.hpp"

namespace bert_hpc::app {
namespace {

/// Everything that lives as long as the training.
struct Training {
  std::optional<comm::ProcessGroups> groups;  // none in an estimate
  DataSets sets;
  PipelineSetup pipeline;
  data::BatchLoaderOptions batches;
  std::optional<Assembly> assembly;
  std::optional<data::BatchLoader> loader;
  std::optional<Evaluator> validation, test;
  std::int64_t message_bytes = 0;
  layers::BatchBounds bounds, evaluation_bounds;
  std::unique_ptr<train::DataParallel> sums;  // null in an estimate

  int micro_batches() const { return static_cast<int>(loader->bounds().replica_micro_batches); }
};

train::ShardSettings shards_of(const Training& training, const Assembly& assembly, const RunContext& context) {
  train::ShardSettings shards = shard_settings(context.input, training.batches.plan.chunks);
  shards.segments = assembly.segments();
  shards.units = assembly.units();
  if (assembly.ties_gradients()) shards.tied = model::word_embeddings_name;
  shards.first_unit_held = assembly.traits.kind == model::HeadKind::masked_lm && assembly.parts.size() == 1;
  return shards;
}

void set_up(Training& training, const RunContext& context) {
  const config::Config& input = context.input;
  comm::Communicator& world = context.world;
  model::BertConfig stated, config;
  collectively(world, [&] { stated = stated_model(input); });
  open_data(training.sets, input, stated, world);
  const data::ShardReader& train = *training.sets.train;
  if (!context.invocation.validate) training.groups.emplace(comm::make_process_groups(world, context.grid));
  const bool estimates = context.invocation.validate;
  const comm::GridPlace place = comm::place(context.grid, std::min(world.rank(), context.ranks() - 1));
  collectively(world, [&] { config = complete_model(input, stated, train.info(), train.special_ids()); });
  training.pipeline = set_up_pipeline(context, config, task_traits(input.task.name).kind, *training.sets.train,
                                      training.groups ? &*training.groups : nullptr);
  collectively(world, [&] {
    training.batches = training_batches(input, config, train.info().max_length, place.data, context.grid,
                                        training.pipeline.micro_batches);
    training.assembly.emplace(input, config, Assembly::Purpose::estimate, context.grid, place,
                              training.pipeline.balance);
  });
  // Communicates, so every rank must have come here: what is wrong with the input the estimate has found.
  if (!estimates) {
    training.assembly.emplace(
        input, config, Assembly::Purpose::training, context.grid, place, training.pipeline.balance,
        train::shard_memory(shard_settings(input, training.batches.plan.chunks), *training.groups->data));
  }
  collectively(world, [&] {
    training.loader.emplace(*training.sets.train, training.batches);
    training.bounds = model_bounds(training.loader->bounds(), training.loader->max_length(),
                                   training.loader->most_masked(), training.assembly->traits.kind);
    const auto add = [&](std::optional<Evaluator>& evaluator, const std::unique_ptr<data::ShardReader>& reader) {
      if (!reader) return;
      const std::int64_t tokens = evaluation_micro_tokens(input, reader->info().max_length);
      evaluator.emplace(*training.assembly, *reader, data::evaluation_options(training.batches, tokens), true);
      training.evaluation_bounds = larger(training.evaluation_bounds, evaluator->bounds());
    };
    add(training.validation, training.sets.validation);
    add(training.test, training.sets.test);
    training.assembly->allocate(training.bounds, training.micro_batches(), training.evaluation_bounds);
    if (estimates && input.model.pretrained) {
      const model::LoadOptions options{model::head_prefixes(training.assembly->traits.head), true};
      model::check_hf_weights(*input.model.pretrained, training.assembly->all_parameters(), options);
    }
  });
  if (estimates) return;
  // Communicates too.
  core::ParameterStore& parameters = training.assembly->parameters;
  const train::ShardSettings shards = shards_of(training, *training.assembly, context);
  const train::NormScope scope = train::norm_scope(parameters.slices(), training.assembly->all_parameters(), world,
                                                   training.assembly->place.tensor);
  comm::Communicator& replicas = *training.groups->data;
  training.sums = train::make_data_parallel(replicas, parameters, shards, scope);
  if (shards.reproducible) return;
  std::int64_t largest = 0;
  for (const auto& bucket : training.sums->plan().buckets) largest = std::max(largest, bucket.size);
  training.message_bytes = replicas.reserve_sums(largest / replicas.size());
}

MemoryPlan memory_of(const Training& training, const Assembly& assembly, const RunContext& context) {
  const train::ShardSettings shards = shards_of(training, assembly, context);
  MemoryPlan memory = train::plan_shards(assembly.parameters, shards, context.grid.data).memory();
  for (auto& item : assembly.memory(true)) memory.push_back(std::move(item));
  if (training.message_bytes > 0) memory.emplace_back("messages", training.message_bytes);
  memory.emplace_back("prepared batches", training.loader->memory_bytes());
  return memory;
}

void describe(const Training& training, const RunContext& context) {
  const auto facts_at = [&](const comm::GridPlace& place) {
    const Assembly& own = *training.assembly;
    if (place == own.place) return stage_facts(own, memory_of(training, own, context));
    Assembly other(context.input, own.config, Assembly::Purpose::estimate, context.grid, place,
                   training.pipeline.balance);
    other.allocate(training.bounds, training.micro_batches(), training.evaluation_bounds);
    return stage_facts(other, memory_of(training, other, context));
  };
  const std::int64_t steps = training.loader->total_steps(), per_epoch = training.loader->steps_per_epoch();
  auto lines = stage_lines(context, facts_at);
  lines.insert(lines.end(), training.pipeline.lines.begin(), training.pipeline.lines.end());
  lines.emplace_back("steps", core::with_commas(steps) + " of " + std::to_string(context.input.batch.global) +
                                  " sequences, " + core::with_commas(per_epoch) + " an epoch" +
                                  (context.input.run.reproducible ? "; reproducible" : ""));
  const train::ShardSettings shards = shards_of(training, *training.assembly, context);
  lines.emplace_back("update", train::plan_shards(training.assembly->parameters, shards, context.grid.data).describe());
  describe_run(context, *training.assembly, training.sets, memory_of(training, *training.assembly, context), lines);
}

ProgressMode display_mode(const RunContext& context) {
  if (context.world.rank() != 0) return ProgressMode::none;
  const Terminal terminal = inspect_terminal();
  return progress_mode(context.input.log.progress, terminal.present, terminal.name);
}

/// The steps and what accompanies them.
class TrainingLoop {
 public:
  TrainingLoop(Training& training, const RunContext& context, Results& results, core::Timers& timers)
      : training_(training),
        context_(context),
        results_(results),
        timers_(timers),
        trainer_(trainer_settings(context.input, training.loader->total_steps()), *training.assembly, *training.sums,
                 timers),
        display_(context.log, display_mode(context), [] { return inspect_terminal().columns; }),
        best_(context.input.evaluation),
        trace_(context.input.log.trace, training.loader->total_steps(), context.world, timers) {
    progress_.total_steps = training.loader->total_steps();
  }

  void run() {
    data::BatchLoader& loader = *training_.loader;
    const std::int64_t evaluation_interval = evaluation_steps(context_.input, loader.steps_per_epoch());
    begin_ = row_begin_ = context_.seconds();
    if (context_.input.log.trace) training_.assembly->pipeline().record(&trace_.instructions());
    for (bool stop = false; loader.has_next() && !stop;) {
      trace_.begin(done_);
      const data::LoadedStep& loaded = next_step();
      const StepResult result = trainer_.step(loaded, done_);
      trace_.end(done_);
      if (trace_.complete()) {
        write_trace();
        training_.assembly->pipeline().record(nullptr);
      }
      ++done_;
      account(result);
      noise_scale_ = result.noise_scale;
      const bool evaluates = done_ % evaluation_interval == 0 || !loader.has_next();
      if (done_ % context_.input.log.every_steps == 0 || evaluates) record();
      display_.step(progress_, context_.seconds());
      if (evaluates) stop = evaluate();
      results_.poll();
    }
    display_.finish();
    write_trace();  // of a run that ended early
    if (!best_.kept()) results_.export_model(*training_.assembly);
  }

  /// With the model that is kept.
  void test() {
    if (!training_.test) return;
    if (best_.kept()) training_.assembly->load_folder(results_.model_folder());
    const auto timed = timers_.measure("evaluation");
    Predictions predictions;
    const bool gathers = context_.input.task.name != "masked_lm";
    const io::EvaluationRow row =
        training_.test->evaluate(best_.kept() ? best_.step() : done_, gathers ? &predictions : nullptr);
    if (gathers) {
      results_.write_predictions(predictions, *training_.sets.test, training_.assembly->config.label_names);
    }
    results_.record_evaluation("test", row);
    context_.log.info(evaluation_line("test", row));
  }

  void finish() {
    TimingFacts facts;
    facts.sections = results_.record_timers(timers_);
    facts.ranks = context_.world.size();
    facts.wall_seconds = context_.seconds() - begin_;
    facts.model_flops = flops_;
    facts.computing_seconds = training_seconds_;
    facts.tokens = tokens_;
    facts.samples = samples_;
    facts.peak_gflops = context_.input.run.peak_gflops.value_or(0.0);
    const std::vector<io::RankRow> ranks =
        results_.record_ranks(context_, "CPU", total(memory_of(training_, *training_.assembly, context_)),
                              rank_time(timers_.sections(), training_seconds_));
    const std::string memory = memory_line(ranks);
    results_.finish({{"steps", static_cast<double>(done_)},
                     {"samples", static_cast<double>(samples_)},
                     {"tokens", static_cast<double>(tokens_)},
                     {"training_seconds", training_seconds_},
                     {"seconds", context_.seconds()},
                     {"model_flops", flops_}});
    context_.log.info(timing_table(facts));
    if (!memory.empty()) context_.log.info(memory);
    context_.log.info("model in " + results_.model_folder() + ", metrics in " + context_.input.run.directory +
                      "/metrics.h5");
  }

 private:
  void write_trace() {
    trace_.write(context_.input.run.directory + "/trace.json", context_.grid,
                 context_.grid.pipeline > 1 ? context_.input.parallel.pipeline_schedule : "");
  }

  const data::LoadedStep& next_step() {
    const auto timed = timers_.measure("data wait");
    return training_.loader->next();
  }

  void account(const StepResult& result) {
    row_.step = done_;
    row_.epoch = static_cast<double>(done_) / static_cast<double>(training_.loader->steps_per_epoch());
    row_.loss += result.loss * static_cast<double>(result.samples);  // record() divides
    row_.learning_rate = result.learning_rate;
    row_.gradient_norm = result.gradient_norm;
    row_.samples += result.samples;
    row_.tokens += result.tokens;
    flops_ += model::training_flops(training_.assembly->config, result.tokens, result.sum_of_squared_lengths);
    progress_.step = progress_.new_steps = done_;
    progress_.epoch = row_.epoch;
    progress_.loss = result.loss;
    progress_.learning_rate = result.learning_rate;
    const double now = context_.seconds(), since_row = now - row_begin_;
    progress_.seconds = now - begin_;
    // Shorter spans than this say more about one batch than about the speed.
    if (since_row > 0.5) progress_.tokens_per_second = static_cast<double>(row_.tokens) / since_row;
  }

  void record() {
    const double now = context_.seconds();
    row_.seconds = now - row_begin_;
    row_.loss /= static_cast<double>(row_.samples);
    row_begin_ = now;
    results_.record_step(row_);
    if (std::isfinite(noise_scale_) && noise_scale_ != recorded_noise_scale_) {  // measured anew
      recorded_noise_scale_ = noise_scale_;
      const double batch = static_cast<double>(context_.input.batch.global);
      const double efficiency = train::statistical_efficiency(noise_scale_, batch);
      results_.record_efficiency(
          {row_.step, noise_scale_, efficiency, static_cast<double>(row_.samples) / row_.seconds * efficiency});
    }
    training_seconds_ += row_.seconds;
    tokens_ += row_.tokens;
    samples_ += row_.samples;
    progress_.tokens_per_second = static_cast<double>(row_.tokens) / row_.seconds;
    display_.line(progress_);
    row_ = {};
  }

  /// True if patience is over.
  bool evaluate() {
    if (!training_.validation) return false;
    const auto timed = timers_.measure("evaluation");
    const io::EvaluationRow row = training_.validation->evaluate(done_);
    results_.record_evaluation("validation", row);
    context_.log.info(evaluation_line("validation", row));
    if (best_.offer(row)) results_.export_model(*training_.assembly);
    row_begin_ = context_.seconds();
    if (!best_.patience_is_over()) return false;
    context_.log.info("stopping early: no better " + *context_.input.evaluation.best + " in the last " +
                      core::counted(*context_.input.evaluation.patience, "evaluation"));
    return true;
  }

  Training& training_;
  const RunContext& context_;
  Results& results_;
  core::Timers& timers_;
  Trainer trainer_;
  ProgressDisplay display_;
  BestModel best_;
  StepTrace trace_;
  ProgressState progress_;
  io::StepRow row_;  // since the last recorded one
  std::int64_t done_ = 0, samples_ = 0, tokens_ = 0;
  double noise_scale_ = 0, recorded_noise_scale_ = -1;
  double begin_ = 0, row_begin_ = 0, training_seconds_ = 0, flops_ = 0;
};

}  // namespace

void run_training(const RunContext& context) {
  Training training;
  set_up(training, context);
  describe(training, context);
  tell_simulation(context, *training.sets.train, training.batches, *training.assembly, training.pipeline.balance);
  if (context.invocation.validate) {
    context.log.info("valid: nothing was computed");
    return;
  }
  core::Timers timers;
  training.assembly->connect(*training.groups, timers);
  const std::string told = training.assembly->load_values(context.input);
  if (!told.empty()) context.log.info(told);
  Results results(context, training.assembly->config.label_names, {}, training.sets.hdf5);
  context.log.info("ready after " + core::format_duration(context.seconds()));
  TrainingLoop loop(training, context, results, timers);
  loop.run();
  loop.test();
  loop.finish();
}

}  // namespace bert_hpc::app
