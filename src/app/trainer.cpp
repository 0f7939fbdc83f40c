#include "bert_hpc/app/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/app/collective.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::size_t votes_per_step = 4;

}  // namespace

Trainer::Trainer(const TrainerSettings& settings, Assembly& assembly, train::DataParallel& sums, core::Timers& timers)
    : settings_(settings),
      assembly_(assembly),
      sums_(sums),
      timers_(timers),
      optimizer_(settings.adamw, assembly.parameters, sums.owned(), sums.plan().settings.offload),
      hash_(*assembly.groups().data, assembly.groups().world, assembly.parameters, settings.parameter_hash_every) {
  if (sums.plan().settings.offload) sums_.set_summed([this](std::size_t range) { optimizer_.fetch(range); });
  if (!assembly.ties_gradients()) return;
  tied_.emplace(assembly.parameters, model::word_embeddings_name, model::decoder_name, assembly.groups().ends.get());
  sums.set_completion([this](std::span<const train::OwnedRange> pieces) { tied_->add(pieces); });
}

void Trainer::require_intact(const std::string& finding) const {
  if (finding.empty()) return;
  throw AgreedError(core::ExitCode::numerical,
                    "a parameter's bits are not what they were: " + finding +
                        " Memory or processor of that rank's host is at fault, or a program error writes where it may "
                        "not. Start again from before, on other hosts if it comes back.");
}

void Trainer::measure_noise(const data::LoadedStep& loaded, double norm) {
  train::SmallBatch mine{.squares = sums_.first_micro_batch_squares()};
  if (own_ > 0) {
    mine.samples = loaded.micro_batches[first_].batch.sequences;
    mine.targets = loaded.micro_batches[first_].target_count;
  }
  const bool speaks = assembly_.place.pipeline == 0;
  train::NoiseMeasurement measurement;
  if (train::measure_noise(assembly_.groups().world, mine, speaks, norm, loaded.plan.sequences(), targets_,
                           measurement)) {
    noise_.add(measurement);
  }
}

double Trainer::global_targets(const data::LoadedStep& loaded) {
  if (loaded.global_target_count >= 0) return static_cast<double>(loaded.global_target_count);
  return static_cast<double>(assembly_.groups().data->sum(loaded.target_count));
}

void Trainer::prepare(const data::LoadedStep& loaded, std::int64_t done) {
  core::Dropout key;
  ops::set_dropout_key(key, settings_.seed, static_cast<std::uint64_t>(done));
  const std::vector<int>& begins = loaded.plan.replica_begin;
  first_index_ = begins[static_cast<std::size_t>(assembly_.place.data)];
  own_ = loaded.micro_batches.size();
  passes_.clear();
  for (std::size_t i = 0; i < own_; ++i) {
    passes_.push_back(
        {.batch = loaded.micro_batches[turned(i)].batch, .training = true, .key0 = key.key0, .key1 = key.key1});
  }
  if (!sums_.plan().shards_gradients()) return;
  // Replicas reduce the gradients of several segments in one order: whoever has fewer micro-batches adds empty ones.
  int most = 0;
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) most = std::max(most, begins[r + 1] - begins[r]);
  while (passes_.size() < static_cast<std::size_t>(most)) passes_.push_back({.batch = empty_, .training = true});
}

void Trainer::result(int micro_batch, model::Stage& stage, int slot) {
  const layers::Pass& pass = passes_[static_cast<std::size_t>(micro_batch)];
  stage.loss(pass, static_cast<float>(1.0 / targets_), slot);
  if (assembly_.place.tensor != 0) return;  // those ranks know the same
  ops::sum(stage.row_losses(slot), stage.head_rows(pass.batch),
           losses_.device() + first_index_ + turned(static_cast<std::size_t>(micro_batch)));
}

/// The sum runs in the order of micro-batches whoever computed them; adding the others' zeros is exact.
double Trainer::global_loss(const data::LoadedStep& loaded, Votes& votes) {
  const auto micro_batches = static_cast<std::size_t>(loaded.plan.micro_batches());
  const std::span<double> losses = losses_.to_host(loaded.plan.micro_batches());
  double* const said = losses_.host() + micro_batches;
  said[0] = votes.stop;
  said[1] = votes.checkpoint;
  said[2] = votes.written;
  said[3] = votes.failed;
  assembly_.groups().world.all_reduce(std::span(losses_.host(), micro_batches + votes_per_step), comm::Reduction::sum);
  votes = {said[0], said[1], said[2], said[3]};
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / targets_;
}

StepResult Trainer::step(const data::LoadedStep& loaded, std::int64_t done, const Votes& votes) {
  const auto micro_batches = static_cast<std::size_t>(loaded.plan.micro_batches());
  const auto sums = static_cast<std::int64_t>(micro_batches + votes_per_step);
  if (losses_.size() < sums) losses_ = core::MirroredArray<double>(sums);  // in the first steps only
  core::fill_on_device(losses_.device(), 0, micro_batches * sizeof(double));
  targets_ = global_targets(loaded);
  // Squares take a pass over the gradients: every few steps is enough for a mean over many. Where two stages sum the
  // uses of tied parameters apart, or tensor ranks hold the same parameters, the squares of a single micro-batch do not
  // add up to those of its gradient.
  constexpr std::int64_t noise_interval = 8;
  const bool adds_up = !tied_ && assembly_.grid.tensor == 1;
  const bool measures = !sums_.plan().settings.reproducible && adds_up && done % noise_interval == 0;
  const std::size_t count = loaded.micro_batches.size();
  sums_.measure_first_micro_batch(measures);
  // Micro-batches are in the order of their sequences' lengths: each has its turn to be the one that is measured.
  first_ = measures ? static_cast<std::size_t>(done / noise_interval) % std::max<std::size_t>(1, count) : 0;
  prepare(loaded, done);
  sums_.begin_step(static_cast<std::int64_t>(passes_.size()));
  assembly_.pipeline().train(assembly_.engine(), passes_, *this);

  StepResult result;
  {
    const auto timed = timers_.measure("gradient sums");
    sums_.end_step();
    result.gradient_norm = sums_.gradient_norm();
    result.votes = votes;
    result.loss = global_loss(loaded, result.votes);
    if (measures) measure_noise(loaded, result.gradient_norm);
    result.noise_scale = noise_.value();
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
    require_intact(hash_.before_update(done + 1));
    optimizer_.step(result.learning_rate, done + 1, result.gradient_norm,
                    [this](std::size_t range) { sums_.share_range(range); });
  }
  {
    const auto timed = timers_.measure("share parameters");
    sums_.share_parameters();
    require_intact(hash_.after_update(done + 1));
  }
  for (const core::PlannedSample& sample : loaded.plan.samples) {
    result.tokens += sample.length;
    result.sum_of_squared_lengths += static_cast<double>(sample.length) * sample.length;
  }
  result.samples = loaded.plan.sequences();
  return result;
}

}  // namespace bert_hpc::app
