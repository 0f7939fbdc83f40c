#include "bert_hpc/app/trainer.hpp"

#include <cmath>

#include "bert_hpc/app/collective.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::app {

Trainer::Trainer(const TrainerSettings& settings, Assembly& assembly, train::DataParallel& sums,
                 comm::Communicator& group, core::Timers& timers)
    : settings_(settings),
      assembly_(assembly),
      sums_(sums),
      group_(group),
      timers_(timers),
      optimizer_(settings.adamw, assembly.parameters, sums.owned()) {}

double Trainer::global_targets(const data::LoadedStep& loaded) {
  if (loaded.global_target_count >= 0) return static_cast<double>(loaded.global_target_count);
  return static_cast<double>(group_.sum(loaded.target_count));
}

void Trainer::compute(const data::LoadedStep& loaded, std::int64_t done, double targets) {
  core::Dropout key;
  ops::set_dropout_key(key, settings_.seed, static_cast<std::uint64_t>(done));
  layers::Engine engine = assembly_.engine();
  const auto scale = static_cast<float>(1.0 / targets);
  auto index = static_cast<std::size_t>(loaded.plan.replica_begin[static_cast<std::size_t>(group_.rank())]);
  for (const data::LoadedMicroBatch& micro : loaded.micro_batches) {
    if (micro.batch.sequences > 0) {
      const layers::Pass pass{.batch = micro.batch, .training = true, .key0 = key.key0, .key1 = key.key1};
      {
        const auto timed = timers_.measure("forward");
        assembly_.bert.open(assembly_.workspace, pass);
        assembly_.bert.forward(engine, pass);
        assembly_.bert.loss(pass, scale);
        losses_[index] = ops::sum(assembly_.bert.row_losses(), assembly_.bert.head_rows(pass.batch));
      }
      const auto timed = timers_.measure("backward");
      assembly_.bert.backward(engine, pass, assembly_.workspace, [this](std::int64_t begin) { sums_.finished(begin); });
    }
    sums_.end_micro_batch();
    ++index;
  }
}

/// The sum runs in the order of micro-batches whoever computed them; adding the others' zeros is exact.
double Trainer::global_loss(const data::LoadedStep& loaded, double targets) {
  const std::span<double> losses(losses_.data(), static_cast<std::size_t>(loaded.plan.micro_batches()));
  group_.all_reduce(losses, comm::Reduction::sum);
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / targets;
}

StepResult Trainer::step(const data::LoadedStep& loaded, std::int64_t done) {
  losses_.assign(static_cast<std::size_t>(loaded.plan.micro_batches()), 0.0);
  const double targets = global_targets(loaded);
  sums_.begin_step(static_cast<std::int64_t>(loaded.micro_batches.size()));
  compute(loaded, done, targets);

  StepResult result;
  {
    const auto timed = timers_.measure("gradient sums");
    sums_.end_step();
    result.gradient_norm = sums_.gradient_norm();
    result.loss = global_loss(loaded, targets);
  }
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm)) {
    throw AgreedError(core::ExitCode::numerical,
                      "step " + std::to_string(done + 1) + ": loss " + std::to_string(result.loss) +
                          ", gradient norm " + std::to_string(result.gradient_norm) +
                          ". Training cannot go on from here. A smaller optimizer.learning_rate, a longer warm-up "
                          "(schedule.warmup_ratio) or clipping (optimizer.max_gradient_norm = 1.0) usually mends it; "
                          "otherwise look for broken values in the pretrained weights.");
  }
  result.learning_rate = settings_.learning_rate * train::learning_rate_factor(settings_.schedule, done);
  {
    const auto timed = timers_.measure("optimizer");
    optimizer_.step(result.learning_rate, done + 1, result.gradient_norm);
  }
  {
    const auto timed = timers_.measure("share parameters");
    sums_.share_parameters();
  }
  for (const core::PlannedSample& sample : loaded.plan.samples) {
    result.tokens += sample.length;
    result.sum_of_squared_lengths += static_cast<double>(sample.length) * sample.length;
  }
  result.samples = loaded.plan.sequences();
  return result;
}

}  // namespace bert_hpc::app
