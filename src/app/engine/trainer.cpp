#include "app/engine/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "app/run/collective.hpp"
#include "bert_hpc/comm/objects.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/losses.hpp"
#include "bert_hpc/train/fp8_step.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::size_t flags_per_step = 5;
constexpr std::size_t values_per_step = flags_per_step + 1;  // and the squares of this rank's part of the gradient

}  // namespace

Trainer::Trainer(const TrainerSettings& settings, ModelInstance& model, train::DataParallel& reducer,
                 core::Timers& timers, Teacher* teacher, TeacherScores* scores)
    : settings_(settings),
      model_(model),
      reducer_(reducer),
      timers_(timers),
      teacher_(teacher),
      scores_(scores),
      optimizer_(settings.optimizer, model.parameters, reducer.owned(), reducer.plan().settings.offload,
                 model.kernels.products->kept_weights(),
                 reducer.plan().shards_gradients() ? std::vector<train::ArenaRange>() : model.replaced_gradients(),
                 train::tensor_norm_scope(model.parameters.slices(), model.all_parameters(), model.groups().world,
                                          reducer.plan().settings.reproducible, model.coordinates.tensor,
                                          reducer.plan().shares_update() || model.coordinates.data == 0)),
      hash_(*model.groups().data, model.groups().world, model.parameters, settings.parameter_hash_every),
      row_losses_(settings.rows * settings.micro_batches),
      row_counts_(static_cast<std::size_t>(settings.micro_batches)) {
  if (settings.distillation) {
    const auto outputs = [this](int micro_batch) {
      if (teacher_ != nullptr) return teacher_->outputs(micro_batch);
      return scores_->outputs(passes_[static_cast<std::size_t>(micro_batch)].batch);
    };
    model.pipeline().set_loss(
        std::make_unique<train::DistillationLoss>(settings.loss, *settings.distillation, outputs));
  } else {
    model.pipeline().set_loss(train::make_loss(settings.loss, settings.step_loss, *model.groups().data));
  }
  if (settings.loss_scale) scale_ = train::LossScale(*settings.loss_scale);
  if (reducer.plan().settings.offload) reducer_.set_summed([this](std::size_t range) { optimizer_.fetch(range); });
  complete_sums();
}

void Trainer::complete_sums() {
  const std::string embeddings = model::word_embeddings_name(model_.config);
  if (model_.ties_gradients()) {
    tied_.emplace(model_.parameters, embeddings, model::decoder_name(model_.config), model_.groups().ends.get());
  }
  const std::vector<core::ParameterSpec> all = model_.all_parameters();
  const std::vector<std::string> shared = train::shared_parameters(all, embeddings);
  if (!shared.empty()) {
    const auto sums = model_.shared_sums(reducer_.plan().settings.reproducible);
    shared_.emplace(model_.parameters, all, shared, model_.groups().world, sums);
  }
  if (!tied_ && !shared_) return;
  reducer_.set_completion([this](std::span<const train::OwnedRange> pieces) {
    if (tied_) tied_->add(pieces);
    if (shared_) shared_->add(pieces);
  });
}

void Trainer::require_intact(const std::string& finding) const {
  if (finding.empty()) return;
  throw AgreedError(core::ExitCode::numerical,
                    "a parameter's bits changed unexpectedly: " + finding +
                        " The memory or processor of that node is faulty, or a defect of the program overwrote it. "
                        "Resume from an earlier checkpoint; if it happens again, use other nodes.");
}

std::string Trainer::fp8_magnitudes() const {
  if (!model_.kernels.fp8) return {};
  const bool contributes =
      model_.coordinates.data == 0 && model_.coordinates.tensor == 0;  // for those that know the same
  std::string all;
  for (const std::string& text :
       model_.groups().world.all_gather(contributes ? model_.kernels.fp8->scales().text() : std::string())) {
    all += text;
  }
  return all;
}

void Trainer::restore_fp8(const std::string& magnitudes) {
  if (!model_.kernels.fp8 || magnitudes.empty()) return;  // of before the first step that was not skipped
  collectively(model_.groups().world, [&] { model_.kernels.fp8->scales().restore(magnitudes); });
}

void Trainer::measure_noise(const data::LoadedStep& loaded, double norm) {
  const double scale = scale_.scale() * scale_.scale();
  train::SmallBatch mine{.squares = reducer_.first_micro_batch_squares() / scale,
                         .left_out = reducer_.squares_without_noise() / scale};
  if (own_ > 0) {
    mine.samples = loaded.micro_batches[first_].batch.sequences;
    mine.targets = loaded.micro_batches[first_].target_count;
  }
  const bool contributes = model_.coordinates.pipeline == 0 && model_.coordinates.tensor == 0;
  train::NoiseMeasurement measurement;
  if (train::measure_noise(model_.groups().world, mine, contributes, norm, loaded.plan.sequences(), targets_,
                           measurement)) {
    noise_.add(measurement);
  }
}

double Trainer::global_targets(const data::LoadedStep& loaded) {
  if (loaded.global_target_count >= 0) return static_cast<double>(loaded.global_target_count);
  return static_cast<double>(model_.groups().data->sum(loaded.target_count));
}

void Trainer::prepare(const data::LoadedStep& loaded, std::int64_t done) {
  core::Dropout key;
  ops::set_dropout_key(key, settings_.seed, static_cast<std::uint64_t>(done));
  const std::vector<int>& begins = loaded.plan.replica_begin;
  first_index_ = begins[static_cast<std::size_t>(model_.coordinates.data)];
  own_ = loaded.micro_batches.size();
  layers::StreamObserver* const states = teacher_ != nullptr ? teacher_->states() : nullptr;
  layers::AttentionObserver* const attention = teacher_ != nullptr ? teacher_->attention() : nullptr;
  if (own_ == 0) optimizer_.clear_replaced();
  std::fill(row_counts_.begin(), row_counts_.end(), 0);
  passes_.clear();
  positions_.clear();
  for (std::size_t i = 0; i < own_; ++i) {
    passes_.push_back({.batch = loaded.micro_batches[rotated(i)].batch,
                       .training = true,
                       .key0 = key.key0,
                       .key1 = key.key1,
                       .number = static_cast<int>(i),
                       .observer = states,
                       .attention_observer = attention});
    positions_.push_back(first_index_ + static_cast<std::int64_t>(rotated(i)));
  }
  if (teacher_ != nullptr && teacher_->pairs() > 0) {
    double tokens = 0;
    for (const core::PlannedSample& sample : loaded.plan.samples) tokens += sample.length;
    const std::int64_t micro_batches = loaded.plan.micro_batches();
    teacher_->begin({.scale = scale_.scale(),
                     .targets = targets_,
                     .tokens = tokens,
                     .losses = losses_.device() + micro_batches,
                     .micro_batches = micro_batches,
                     .position = positions_});
  }
  if (!reducer_.plan().shards_gradients()) return;
  // Replicas reduce the gradients of several segments in one order: a replica with fewer micro-batches adds empty ones.
  int most = 0;
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) most = std::max(most, begins[r + 1] - begins[r]);
  while (passes_.size() < static_cast<std::size_t>(most)) passes_.push_back({.batch = empty_, .training = true});
}

std::size_t Trainer::losses_of(const data::LoadedStep& loaded) const {
  const std::int64_t pairs = teacher_ != nullptr ? teacher_->pairs() : 0;
  return static_cast<std::size_t>(loaded.plan.micro_batches() * (1 + pairs));
}

void Trainer::result(int micro_batch, model::Stage& stage, int slot) {
  if (model_.coordinates.tensor != 0) return;  // those ranks know the same
  const std::size_t number = rotated(static_cast<std::size_t>(micro_batch));
  const std::int64_t count = stage.loss_rows(slot);
  ops::sum(stage.row_losses(slot), count, losses_.device() + first_index_ + number);
  const auto rows = static_cast<std::size_t>(count);
  ops::copy({stage.row_losses(slot), rows},
            {row_losses_.data() + settings_.rows * static_cast<std::int64_t>(number), rows});
  row_counts_[number] = count;
}

std::vector<std::int64_t> Trainer::samples_without_loss(const data::LoadedStep& loaded) {
  std::vector<std::int64_t> mine;
  std::vector<float> rows;
  for (std::size_t m = 0; m < own_; ++m) {
    rows.resize(static_cast<std::size_t>(row_counts_[m]));
    core::copy_to_host(row_losses_.data() + settings_.rows * static_cast<std::int64_t>(m), rows.data(),
                       rows.size() * sizeof(float));
    const core::MicroBatch& batch = loaded.micro_batches[m].on_host;
    const bool pools = model_.objective.head.pooling.has_value();  // a row is a sequence
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (std::isfinite(rows[r])) continue;
      mine.push_back(batch.sample[pools ? static_cast<std::int32_t>(r) : core::sequence_of_loss(batch.targets, r)]);
    }
  }
  std::vector<std::int64_t> samples;
  for (const auto& found : comm::all_gather_objects(model_.groups().world, mine)) {
    samples.insert(samples.end(), found.begin(), found.end());
  }
  std::sort(samples.begin(), samples.end());  // a sample may have several rows
  samples.erase(std::unique(samples.begin(), samples.end()), samples.end());
  return samples;
}

void Trainer::update_at_once(double learning_rate, std::int64_t done, std::size_t losses) {
  const auto timed = timers_.measure("optimizer");
  require_intact(hash_.before_update(done + 1));
  reducer_.norm().start(
      {.losses = losses_.device(), .micro_batches = static_cast<std::int64_t>(losses), .targets = targets_},
      optimizer_.max_gradient_norm(), scale_.scale());
  optimizer_.step_on_device(learning_rate, update_number(done), reducer_.norm().factor());
}

void Trainer::update(const StepResult& result, std::int64_t done) {
  {
    const bool launched = updates_at_once();
    const auto timed = timers_.measure_unless(launched, "optimizer");  // it was measured when it was launched
    if (!launched) require_intact(hash_.before_update(done + 1));
    if (result.skipped) {
      if (!launched) optimizer_.discard();
      ++skipped_.total;
      if (!result.backed_off) ++skipped_.in_a_row;  // finding a scale is no failure
    } else {
      std::function<void(std::size_t)> share;
      if (reducer_.plan().shares_update()) share = [this](std::size_t range) { reducer_.share_range(range); };
      if (!launched) {
        optimizer_.step(result.learning_rate, update_number(done), result.gradient_norm, share, scale_.scale());
      }
      skipped_.in_a_row = 0;
    }
    scale_.update(!result.skipped);
  }
  const auto timed = timers_.measure("parameter all-gather");
  reducer_.share_parameters();
  require_intact(hash_.after_update(done + 1));
}

/// The sum runs in the order of micro-batches on every layout; adding zeros of other ranks is exact.
void Trainer::agree(const data::LoadedStep& loaded, StepResult& result) {
  const std::size_t count = losses_of(loaded);
  const std::span<double> losses = losses_.to_host(static_cast<std::int64_t>(count));
  double* const said = losses_.host() + count;
  StepFlags& flags = result.flags;
  train::GradientNorm& norm = reducer_.norm();
  said[0] = flags.stop;
  said[1] = flags.checkpoint;
  said[2] = flags.written;
  said[3] = flags.failed;
  said[4] = flags.lost;
  said[5] = norm.is_reproducible() ? 0 : norm.own_squares();
  model_.groups().world.all_reduce(std::span(losses_.host(), count + values_per_step), comm::Reduction::sum);
  flags = {said[0], said[1], said[2], said[3], said[4]};
  double sum = 0;
  for (const double loss : losses) sum += loss;
  result.loss = sum / targets_;
  result.gradient_norm = (norm.is_reproducible() ? norm.result() : std::sqrt(said[5])) / scale_.scale();
  result.skipped = !std::isfinite(result.loss) || !std::isfinite(result.gradient_norm);
}

std::vector<std::int64_t> Trainer::bad_samples(const data::LoadedStep& loaded, double loss) {
  std::vector<std::int64_t> samples;
  if (std::isfinite(loss)) {
    for (const core::PlannedSample& sample : loaded.plan.samples) samples.push_back(sample.index);
  } else {
    samples = samples_without_loss(loaded);
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

StepResult Trainer::step(const data::LoadedStep& loaded, std::int64_t done, const StepHooks& hooks) {
  const auto micro_batches = static_cast<std::size_t>(loaded.plan.micro_batches());
  const std::size_t losses = losses_of(loaded);
  const auto sums = static_cast<std::int64_t>(losses + values_per_step);
  if (losses_.size() < sums) losses_ = core::MirroredArray<double>(sums);  // in the first steps only
  core::fill_on_device(losses_.device(), 0, losses * sizeof(double));
  targets_ = global_targets(loaded);
  // Squares take a pass over the gradients: every few steps is enough for a mean over many.
  constexpr std::int64_t noise_interval = 8;
  // A small batch is a part of the step's: where that is one micro-batch there is none.
  const bool measures = done % noise_interval == 0 && micro_batches > 1;
  const std::size_t count = loaded.micro_batches.size();
  reducer_.measure_first_micro_batch(measures);
  // The first micro-batch has the longest sequence, the last ones have more of the short ones: each has its turn to be
  // the one that is measured, but where the order of sums is fixed.
  const bool rotates = measures && !reducer_.plan().settings.reproducible;
  first_ = rotates ? static_cast<std::size_t>(done / noise_interval) % std::max<std::size_t>(1, count) : 0;
  prepare(loaded, done);
  if (teacher_ != nullptr) {
    const auto timed = timers_.measure("teacher");
    teacher_->compute(passes_);
  }
  if (model_.kernels.fp8) train::begin_fp8_step(*model_.kernels.fp8, *model_.groups().tensor);
  reducer_.begin_step(static_cast<std::int64_t>(passes_.size()));
  model_.pipeline().train(model_.training_engine(), passes_,
                          {.scale = loss_scale_of_step(),
                           .plan = &loaded.plan,
                           .sequence_weight = static_cast<float>(
                               targets_ / static_cast<double>(std::max<std::int64_t>(1, loaded.plan.sequences()))),
                           .first = first_},
                          *this);

  StepResult result;
  result.learning_rate = settings_.learning_rate * train::learning_rate_factor(settings_.schedule, done);
  const char* const section = model_.groups().world.size() > 1 ? "gradient reduction" : "gradient accumulation";
  {
    const auto timed = timers_.measure(section);
    reducer_.end_step();
    if (measures) reducer_.start_squares_without_noise();
    if (!updates_at_once()) reducer_.norm().start();
  }
  if (updates_at_once()) {
    if (hooks.before_update) hooks.before_update();
    update_at_once(result.learning_rate, done, losses);
  }
  {
    const auto timed = timers_.measure(section);
    if (hooks.flags) result.flags = hooks.flags();  // as late as possible: a signal counts in the step that it came in
    agree(loaded, result);
    if (measures && !result.skipped) measure_noise(loaded, result.gradient_norm);
    result.noise_scale = noise_.value();
  }
  timers_.collect();  // agree() has waited for the device
  if (model_.kernels.fp8) {
    const comm::ProcessGroups& groups = model_.groups();
    train::end_fp8_step(*model_.kernels.fp8, *groups.tensor, *groups.data, result.skipped);
  }
  result.backed_off = result.skipped && scale_.may_back_off();
  if (result.skipped) result.bad_samples = bad_samples(loaded, result.loss);
  if (hooks.before_update && !updates_at_once()) hooks.before_update();
  update(result, done);
  for (const core::PlannedSample& sample : loaded.plan.samples) {
    result.tokens += sample.length;
    result.computed_tokens += sample.rows();
    result.sum_of_squared_lengths += static_cast<double>(sample.length) * sample.length;
  }
  result.samples = loaded.plan.sequences();
  result.targets = targets_;
  return result;
}

}  // namespace bert_hpc::app
