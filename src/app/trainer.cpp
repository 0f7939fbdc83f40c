#include "bert_hpc/app/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/app/collective.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::app {

Trainer::Trainer(const TrainerSettings& settings, Assembly& assembly, train::DataParallel& sums, core::Timers& timers)
    : settings_(settings),
      assembly_(assembly),
      sums_(sums),
      timers_(timers),
      optimizer_(settings.adamw, assembly.parameters, sums.owned()) {
  if (!assembly.ties_gradients()) return;
  tied_.emplace(assembly.parameters, model::word_embeddings_name, model::decoder_name, assembly.groups().ends.get());
  sums.set_completion([this](std::span<const train::OwnedRange> pieces) { tied_->add(pieces); });
}

double Trainer::global_targets(const data::LoadedStep& loaded) {
  if (loaded.global_target_count >= 0) return static_cast<double>(loaded.global_target_count);
  return static_cast<double>(assembly_.groups().data->sum(loaded.target_count));
}

void Trainer::compute(const data::LoadedStep& loaded, std::int64_t done) {
  core::Dropout key;
  ops::set_dropout_key(key, settings_.seed, static_cast<std::uint64_t>(done));
  passes_.clear();
  for (const data::LoadedMicroBatch& micro : loaded.micro_batches) {
    passes_.push_back({.batch = micro.batch, .training = true, .key0 = key.key0, .key1 = key.key1});
  }
  const auto replica = static_cast<std::size_t>(assembly_.place.data);
  first_micro_batch_ = static_cast<std::size_t>(loaded.plan.replica_begin[replica]);
  assembly_.pipeline().train(assembly_.engine(), passes_, *this);
}

void Trainer::result(int micro_batch, model::Stage& stage, int slot) {
  const layers::Pass& pass = passes_[static_cast<std::size_t>(micro_batch)];
  stage.loss(pass, static_cast<float>(1.0 / targets_), slot);
  if (assembly_.place.tensor != 0) return;  // those ranks know the same
  losses_[first_micro_batch_ + static_cast<std::size_t>(micro_batch)] =
      ops::sum(stage.row_losses(slot), stage.head_rows(pass.batch));
}

/// The sum runs in the order of micro-batches whoever computed them; adding the others' zeros is exact.
double Trainer::global_loss(const data::LoadedStep& loaded) {
  const std::span<double> losses(losses_.data(), static_cast<std::size_t>(loaded.plan.micro_batches()));
  assembly_.groups().world.all_reduce(losses, comm::Reduction::sum);
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / targets_;
}

StepResult Trainer::step(const data::LoadedStep& loaded, std::int64_t done) {
  losses_.assign(static_cast<std::size_t>(loaded.plan.micro_batches()), 0.0);
  targets_ = global_targets(loaded);
  sums_.begin_step(static_cast<std::int64_t>(loaded.micro_batches.size()));
  compute(loaded, done);

  StepResult result;
  {
    const auto timed = timers_.measure("gradient sums");
    sums_.end_step();
    result.gradient_norm = sums_.gradient_norm();
    result.loss = global_loss(loaded);
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
