#include "app/engine/training_settings.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::app {
namespace {

train::LearningRateSchedule learning_rate_schedule(const config::Config& input, std::int64_t total_steps,
                                                   const data::BatchSchedule* sizes) {
  using Kind = train::LearningRateSchedule::Kind;
  train::LearningRateSchedule schedule;
  const std::string& name = input.schedule.name;
  schedule.kind = name == "cosine"       ? Kind::cosine
                  : name == "polynomial" ? Kind::polynomial
                  : name == "constant"   ? Kind::constant
                  : name == "linear"     ? Kind::linear
                                         : Kind::warmup_stable_decay;
  schedule.total_steps = total_steps;
  // As Hugging Face's Trainer: a ratio's steps are rounded up.
  const auto steps_of = [total_steps](std::optional<double> ratio) {
    return static_cast<std::int64_t>(std::ceil(ratio.value_or(0.0) * static_cast<double>(total_steps)));
  };
  const config::Schedule& s = input.schedule;
  const auto share_of = [&](double tokens) { return tokens / s.tokens.value_or(tokens); };
  // Shares of the tokens are no shares of the steps if batches grow.
  const bool grows = sizes != nullptr && sizes->grows();
  const auto steps_until = [&](double share) {
    return share > 0 ? std::min(total_steps, sizes->steps_of(share * sizes->epochs_of(total_steps))) : 0;
  };
  if (s.warmup_tokens) {
    const double share = share_of(*s.warmup_tokens);
    schedule.warmup_steps = grows ? steps_until(share) : steps_of(share);
  } else {
    schedule.warmup_steps = s.warmup_steps.value_or(steps_of(s.warmup_ratio));
  }
  if (s.decay_tokens) {
    const double share = share_of(*s.decay_tokens);
    schedule.decay_steps = grows ? total_steps - steps_until(1 - share) : steps_of(share);
  } else {
    schedule.decay_steps = s.decay_steps.value_or(steps_of(s.decay_ratio));
  }
  schedule.decay = input.schedule.decay == "1-sqrt" ? train::LearningRateSchedule::Decay::one_minus_root
                                                    : train::LearningRateSchedule::Decay::linear;
  schedule.power = input.schedule.power.value_or(1.0);
  schedule.end_factor = input.schedule.end_factor.value_or(0.0);
  return schedule;
}

double metric_of(const io::EvaluationRow& row, const std::string& name) {
  for (const auto& [metric, value] : row.metrics) {
    if (metric == name) return value;
  }
  return name == "loss" ? row.loss : std::numeric_limits<double>::quiet_NaN();  // the data have no such metric
}

}  // namespace

TrainerSettings trainer_settings(const config::Config& input, std::int64_t total_steps,
                                 const data::BatchSchedule* sizes) {
  TrainerSettings settings;
  settings.seed = static_cast<std::uint64_t>(input.run.seed);
  settings.learning_rate = input.optimizer.learning_rate.value_or(0.0);
  settings.optimizer.name = input.optimizer.name;
  for (const core::NumberSetting& own : input.optimizer.own) {
    // Optimizers multiply weight decay by the rate: here only by its share of the peak.
    const bool independent = input.optimizer.decay == "independent" && std::string_view(own.key) == "weight_decay";
    settings.optimizer.values.push_back(independent ? own.value / settings.learning_rate : own.value);
  }
  settings.optimizer.max_gradient_norm = input.optimizer.max_gradient_norm;
  settings.optimizer.coupled_decay = input.optimizer.decay == "coupled";
  settings.schedule = learning_rate_schedule(input, total_steps, sizes);
  if (input.precision.compute == "fp16") {
    settings.loss_scale = train::LossScaleSettings();
    if (input.precision.loss_scale) {
      settings.loss_scale->initial = *input.precision.loss_scale;
      settings.loss_scale->dynamic = false;
    }
  }
  settings.parameter_hash_every = input.debug.parameter_hash_every;
  return settings;
}

std::vector<ops::StateTensor> optimizer_states(const config::Config& input) {
  return ops::optimizer_kind(input.optimizer.name).states;
}

train::ShardSettings shard_settings(const config::Config& input) {
  train::ShardSettings settings;
  settings.states = optimizer_states(input);
  settings.reproducible = input.run.reproducible;
  settings.zero = static_cast<int>(input.parallel.zero);
  settings.offload = input.parallel.offload;
  settings.chunks = input.batch.chunks;
  return settings;
}

train::ShardSettings shard_settings(const RunContext& context) {
  train::ShardSettings settings = shard_settings(context.input);
  settings.gpu = context.on_gpus();
  return settings;
}

std::int64_t EvaluationSteps::until(std::int64_t done) const {
  if (settings_.every_steps) return done / *settings_.every_steps;
  return sizes_.epoch_of(done) / settings_.every_epochs.value_or(1);
}

std::int64_t EvaluationSteps::left(std::int64_t done, std::int64_t total) const {
  if (done > total) return 0;
  return until(total) - (done > 0 ? until(done - 1) : 0) + (due(total) ? 0 : 1);
}

std::string BestModel::undefined_metric(const io::EvaluationRow& row) const {
  return settings_.best && !std::isfinite(metric_of(row, *settings_.best)) ? *settings_.best : std::string();
}

bool BestModel::offer(const io::EvaluationRow& row) {
  if (!settings_.best) return false;
  const double value = metric_of(row, *settings_.best);
  const bool larger_is_better = metrics::larger_is_better(*settings_.best);
  const bool better =
      std::isfinite(value) && (!state_.kept || (larger_is_better ? value > state_.value : value < state_.value));
  if (better) {
    state_.value = value;
    state_.step = row.step;
  }
  state_.evaluations_since = better ? 0 : state_.evaluations_since + 1;
  state_.kept = state_.kept || better;
  return better;
}

}  // namespace bert_hpc::app
