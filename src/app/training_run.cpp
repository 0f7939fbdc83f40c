#include "bert_hpc/app/training_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "bert_hpc/app/collective.hpp"
#include "bert_hpc/app/data_sets.hpp"
#include "bert_hpc/app/evaluator.hpp"
#include "bert_hpc/app/results.hpp"
#include "bert_hpc/app/trainer.hpp"

namespace bert_hpc::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

train::LearningRateSchedule schedule_of(const config::Config& input, std::int64_t total_steps) {
  using Kind = train::LearningRateSchedule::Kind;
  train::LearningRateSchedule schedule;
  const std::string& name = input.schedule.name;
  schedule.kind = name == "cosine"       ? Kind::cosine
                  : name == "polynomial" ? Kind::polynomial
                  : name == "constant"   ? Kind::constant
                                         : Kind::linear;
  schedule.total_steps = total_steps;
  // As Hugging Face's Trainer: the ratio's steps are rounded up.
  schedule.warmup_steps = input.schedule.warmup_steps.value_or(static_cast<std::int64_t>(
      std::ceil(input.schedule.warmup_ratio.value_or(0.0) * static_cast<double>(total_steps))));
  schedule.power = input.schedule.power.value_or(1.0);
  schedule.end_factor = input.schedule.end_factor.value_or(0.0);
  return schedule;
}

TrainerSettings trainer_settings(const config::Config& input, std::int64_t total_steps) {
  TrainerSettings settings;
  settings.seed = static_cast<std::uint64_t>(input.run.seed);
  settings.learning_rate = input.optimizer.learning_rate.value_or(0.0);
  settings.adamw = {.beta1 = input.optimizer.beta1,
                    .beta2 = input.optimizer.beta2,
                    .epsilon = input.optimizer.epsilon,
                    .weight_decay = input.optimizer.weight_decay,
                    .max_gradient_norm = input.optimizer.max_gradient_norm};
  settings.schedule = schedule_of(input, total_steps);
  return settings;
}

/// Value of the metric that evaluation.best names ("loss" or one of the metrics).
double metric_of(const io::EvaluationRow& row, const std::string& name) {
  for (const auto& [metric, value] : row.metrics) {
    if (metric == name) return value;
  }
  return row.loss;
}

/// Which evaluation was the best so far, and how long ago.
class BestModel {
 public:
  explicit BestModel(const config::Evaluation& settings) : settings_(settings) {}

  /// Is this evaluation better than all before?
  bool offer(const io::EvaluationRow& row) {
    if (!settings_.best) return false;
    const double value = metric_of(row, *settings_.best);
    const bool better = !kept_ || (train::larger_is_better(*settings_.best) ? value > best_ : value < best_);
    evaluations_since_ = better ? 0 : evaluations_since_ + 1;
    if (better) best_ = value;
    return better;
  }
  bool patience_is_over() const { return settings_.patience && evaluations_since_ >= *settings_.patience; }
  bool kept() const { return kept_; }

 private:
  const config::Evaluation& settings_;
  double best_ = 0;
  bool kept_ = false;
  std::int64_t evaluations_since_ = 0;
};

}  // namespace

int run_training(const config::Config& input, const Invocation&, comm::Communicator& world, int threads) {
  const Clock::time_point begin = Clock::now();
  // 1. Data and model.
  model::BertConfig stated, config;
  collectively(world, [&] { stated = stated_model(input); });
  DataSets sets;
  open_data(sets, input, stated, world);
  collectively(world, [&] { config = complete_model(input, stated, sets.any().info(), sets.any().special_ids()); });

  // 2. Memory, all of it.
  std::optional<Assembly> assembly;
  std::optional<data::BatchLoader> loader;
  std::optional<Evaluator> validation;
  std::unique_ptr<train::DataParallel> sums;
  const data::BatchLoaderOptions batches =
      training_batches(input, config, sets.train->info().max_length, world.rank(), world.size());
  collectively(world, [&] {
    assembly.emplace(input, config, true, world.size());
    loader.emplace(*sets.train, batches);
    layers::BatchBounds bounds =
        model_bounds(loader->bounds(), loader->max_length(), loader->most_masked(), assembly->traits.kind);
    if (sets.validation) {
      const std::int64_t tokens = evaluation_micro_tokens(input, sets.validation->info().max_length);
      validation.emplace(*assembly, *sets.validation, data::evaluation_options(batches, tokens), true);
      bounds = larger(bounds, validation->bounds());
    }
    assembly->allocate(bounds);
    sums = input.run.reproducible
               ? train::make_reproducible_data_parallel(world, assembly->parameters, input.batch.chunks)
               : train::make_overlapped_data_parallel(world, assembly->parameters);
  });
  const std::string told = assembly->load_values(input, world);
  core::Timers timers;
  const std::int64_t total_steps = loader->total_steps();
  Trainer trainer(trainer_settings(input, total_steps), *assembly, *sums, world, timers);
  Results results(input, config.label_names, {}, world, sets.hdf5);
  const bool speaks = world.rank() == 0;
  if (speaks) {
    std::printf("%lld parameters, %lld training samples, %lld steps; ready after %.2f s\n%s",
                static_cast<long long>(assembly->parameters.parameters()),
                static_cast<long long>(sets.train->samples()), static_cast<long long>(total_steps),
                seconds_since(begin), told.c_str());
    std::fflush(stdout);
  }

  // 3. Steps.
  BestModel best(input.evaluation);
  const auto evaluate = [&](std::int64_t done) {
    if (!validation) return false;
    const auto timed = timers.measure("evaluation");
    const io::EvaluationRow row = validation->evaluate(world, done);
    results.record_evaluation("validation", row);
    if (speaks) {
      std::printf("step %lld: validation loss %.4f", static_cast<long long>(done), row.loss);
      for (const auto& [name, value] : row.metrics) std::printf(", %s %.4f", name.c_str(), value);
      std::printf("\n");
      std::fflush(stdout);
    }
    if (best.offer(row)) results.export_model(*assembly);
    return best.patience_is_over();
  };
  const std::int64_t per_epoch = loader->steps_per_epoch();
  std::int64_t every = input.evaluation.every_steps.value_or(0);
  if (every == 0) every = input.evaluation.every_epochs.value_or(1) * per_epoch;
  io::StepRow row;
  Clock::time_point row_begin = Clock::now();
  std::int64_t done = 0, total_samples = 0, total_tokens = 0;
  double flops = 0, training_seconds = 0;
  bool stop = false;
  while (loader->has_next() && !stop) {
    const data::LoadedStep* loaded = nullptr;
    {
      const auto timed = timers.measure("data wait");
      loaded = &loader->next();
    }
    const StepResult result = trainer.step(*loaded, done);
    ++done;
    flops += model::training_flops(config, result.tokens, result.sum_of_squared_lengths);
    row.step = done;
    row.epoch = static_cast<double>(done) / static_cast<double>(per_epoch);
    row.loss = result.loss;
    row.learning_rate = result.learning_rate;
    row.gradient_norm = result.gradient_norm;
    row.samples += result.samples;
    row.tokens += result.tokens;
    const bool last = !loader->has_next();
    const bool evaluates = done % every == 0 || last;
    if (done % input.log.every_steps == 0 || evaluates) {
      row.seconds = seconds_since(row_begin);
      training_seconds += row.seconds;
      results.record_step(row);
      if (speaks) {
        std::printf("step %lld/%lld, epoch %.2f: loss %.4f, learning rate %.3g, %.0f tokens/s\n",
                    static_cast<long long>(done), static_cast<long long>(total_steps), row.epoch, row.loss,
                    row.learning_rate, static_cast<double>(row.tokens) / row.seconds);
        std::fflush(stdout);
      }
      total_samples += row.samples;
      total_tokens += row.tokens;
      row = {};
      if (evaluates) stop = evaluate(done);
      results.poll();
      row_begin = Clock::now();
    }
  }
  if (!best.kept()) results.export_model(*assembly);

  // 4. The test set, with the model that is kept.
  if (sets.test) {
    if (best.kept()) assembly->load_folder(results.model_folder(), world);
    const std::int64_t tokens = evaluation_micro_tokens(input, sets.test->info().max_length);
    std::optional<Evaluator> test;
    collectively(world, [&] { test.emplace(*assembly, *sets.test, data::evaluation_options(batches, tokens), true); });
    results.record_evaluation("test", test->evaluate(world, done));
  }
  const std::vector<io::TimerRow> table = results.record_timers(timers);
  results.record_ranks(threads, "CPU");
  results.finish(io::RunStatus::finished, {{"steps", static_cast<double>(done)},
                                           {"samples", static_cast<double>(total_samples)},
                                           {"tokens", static_cast<double>(total_tokens)},
                                           {"training_seconds", training_seconds},
                                           {"seconds", seconds_since(begin)},
                                           {"model_flops", flops}});
  if (speaks) {
    for (const io::TimerRow& timer : table) {
      std::printf("%-20s %8lld %10.3f %10.3f %10.3f\n", timer.name.c_str(), static_cast<long long>(timer.calls),
                  timer.seconds_min, timer.seconds_avg, timer.seconds_max);
    }
    std::printf("%.1f GFLOP/s\n", flops / training_seconds / 1e9);
  }
  return 0;
}

int run_evaluation(const config::Config& input, const Invocation&, comm::Communicator& world, int threads) {
  model::BertConfig stated, config;
  collectively(world, [&] { stated = stated_model(input); });
  DataSets sets;
  open_data(sets, input, stated, world);
  data::ShardReader& reader = sets.test ? *sets.test : *sets.validation;
  collectively(world, [&] { config = complete_model(input, stated, reader.info(), reader.special_ids()); });
  const bool predicts = input.run.mode == "predict";
  std::optional<Assembly> assembly;
  std::optional<Evaluator> evaluator;
  collectively(world, [&] {
    assembly.emplace(input, config, false, world.size());
    const std::int64_t longest = reader.info().max_length;
    evaluator.emplace(*assembly, reader,
                      data::evaluation_options(training_batches(input, config, longest, world.rank(), world.size()),
                                               evaluation_micro_tokens(input, longest)),
                      !predicts);
    assembly->allocate(evaluator->bounds());
  });
  assembly->load_values(input, world);
  Results results(input, config.label_names, {}, world, sets.hdf5);
  Predictions predictions;
  const bool gathers = input.task.name != "masked_lm";
  const io::EvaluationRow row = evaluator->evaluate(world, 0, gathers ? &predictions : nullptr);
  if (!predicts) {
    results.record_evaluation(sets.test ? "test" : "validation", row);
    if (world.rank() == 0) {
      std::printf("loss %.4f", row.loss);
      for (const auto& [name, value] : row.metrics) std::printf(", %s %.4f", name.c_str(), value);
      std::printf("\n");
    }
  }
  collectively(world, [&] {
    if (world.rank() != 0 || !gathers) return;
    const std::lock_guard lock(sets.hdf5);
    write_predictions(input.run.directory + "/predictions.h5", predictions, reader, input.task.name,
                      config.label_names);
  });
  results.record_ranks(threads, "CPU");
  results.finish(io::RunStatus::finished, {{"samples", static_cast<double>(reader.samples())}});
  return 0;
}

}  // namespace bert_hpc::app
