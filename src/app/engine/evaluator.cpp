#include "bert_hpc/app/engine/evaluator.hpp"

#include <algorithm>

#include "bert_hpc/app/engine/data_sets.hpp"
#include "bert_hpc/app/engine/label_unit.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::app {
Evaluator::Evaluator(ModelInstance& model, data::ShardReader& reader, const config::Task& task,
                     const data::BatchLoaderOptions& options, bool labels, std::mutex& hdf5)
    : model_(model),
      reader_(reader),
      loader_(reader, options),
      labels_(labels),
      hdf5_(hdf5),
      loss_(1),
      metrics_(evaluation()) {
  predicted_ = core::MirroredArray<std::int32_t>(bounds().selected);
  if (metrics_.reads_confidences()) confidences_ = core::MirroredArray<float>(bounds().selected);
  if (model.objective.task->labels == tasks::Labels::spans) answer_settings_ = answer_settings(task, reader);
}

metrics::Evaluation Evaluator::evaluation() const {
  return {model_.objective.task->metrics, evaluated_set(model_, reader_)};
}

layers::BatchBounds Evaluator::bounds() const {
  return model_bounds(loader_);
}

std::span<const core::PlannedSample> Evaluator::samples_of(int micro_batch) const {
  const int first = loaded_->plan.replica_begin[static_cast<std::size_t>(model_.place.data)];
  return loaded_->plan.micro_batch(first + micro_batch);
}

void Evaluator::keep(int micro_batch, std::span<const float> logits) {
  for (const core::PlannedSample& sample : samples_of(micro_batch)) samples_.push_back(sample.index);
  logits_.insert(logits_.end(), logits.begin(), logits.end());
}

/// The best spans of each sequence.
void Evaluator::keep_spans(int micro_batch, std::span<const float> logits) {
  const std::span<const std::int32_t> contexts = reader_.contexts();
  const auto width = static_cast<std::size_t>(this->width());
  std::size_t begin = 0;
  for (const core::PlannedSample& sample : samples_of(micro_batch)) {
    const auto at = static_cast<std::size_t>(2 * sample.index);
    samples_.push_back(sample.index);
    logits_.resize(logits_.size() + width);
    objectives::best_spans(logits.subspan(begin, static_cast<std::size_t>(2 * sample.length)), contexts[at],
                           contexts[at + 1], *answer_settings_, std::span(logits_).last(width));
    begin += static_cast<std::size_t>(2 * sample.length);
  }
}

std::int64_t Evaluator::width() const {
  return answer_settings_ ? objectives::window_width(*answer_settings_) : model_.outputs();
}

void Evaluator::result(int micro_batch, model::Stage& stage, int slot) {
  const layers::StepContext& pass = passes_[static_cast<std::size_t>(micro_batch)];
  const core::MicroBatch& batch = loaded_->micro_batches[static_cast<std::size_t>(micro_batch)].on_host;
  const std::int64_t rows = pass.batch.targets.rows.count;
  const bool predicts = labels_ && metrics_.reads_predicted();
  if (labels_) stage.loss(pass, 1.0f, slot);
  if (predicts) stage.predict(predicted_.device(), slot);
  if (model_.place.tensor != 0) return;  // those ranks know the same
  const auto logits = [&] {
    const core::Tensor<float> all = stage.logits(slot).as<float>();  // contiguous: not of a tied decoder
    const std::span<const float> outputs(all.data, static_cast<std::size_t>(all.size()));
    return outputs_in_labels_unit(model_.label_scale, model_.prediction_range, core::on_host(outputs, aside_),
                                  in_labels_unit_);
  };
  if (keep_) answer_settings_ ? keep_spans(micro_batch, logits()) : keep(micro_batch, logits());
  if (!labels_) return;
  ops::sum(stage.row_losses(slot), rows, loss_.device());
  const double loss = loss_.to_host(1)[0];
  metrics::Results results{.batch = batch};
  if (predicts) results.predicted = predicted_.to_host(rows);
  if (metrics_.reads_confidences()) {
    ops::largest_probability(stage.logits(slot), confidences_.device());
    results.confidences = confidences_.to_host(rows);
  }
  if (metrics_.reads_outputs()) results.outputs = logits();
  metrics_.add(loss, results);
}

bool Evaluator::pass_over_data(const std::function<bool()>& give_up, Predictions* predictions) {
  metrics_ = evaluation();
  keep_ = predictions != nullptr || answer_settings_;
  delivered_ = 0;
  const bool is_root = model_.groups().world.rank() == 0;
  if (answer_settings_ && is_root) answers_.emplace(reader_, hdf5_, *answer_settings_);
  loader_.restart(0);
  while (loader_.has_next()) {
    if (give_up()) return false;
    loaded_ = &loader_.next();
    passes_.clear();
    for (const data::LoadedMicroBatch& micro : loaded_->micro_batches) passes_.push_back({.batch = micro.batch});
    model_.pipeline().evaluate(model_.engine(), passes_, *this);
    if (keep_) gather_step(predictions);
  }
  if (answers_) {
    answers_->finish(labels_ ? metrics_.sums_of(metrics::answers()) : metrics::Sums(),
                     predictions != nullptr ? &predictions->answers : nullptr);
    answers_.reset();
  }
  model_.groups().world.all_reduce(metrics_.sums(), comm::Reduction::sum);
  return true;
}

io::EvaluationRow Evaluator::row(std::int64_t step) {
  io::EvaluationRow row;
  row.step = step;
  row.loss = metrics_.loss();
  row.metrics = metrics_.values();
  row.classes = metrics_.matrix_classes();
  row.confusion_matrix = metrics_.confusion_matrix();
  row.class_counts = metrics_.class_counts();
  return row;
}

std::optional<io::EvaluationRow> Evaluator::evaluate_unless(std::int64_t step, const std::function<bool()>& give_up,
                                                            Predictions* predictions) {
  if (!pass_over_data(give_up, predictions)) return std::nullopt;
  return row(step);
}

/// The results of the step's samples go to rank 0. They are the next ones of the data's order.
void Evaluator::gather_step(Predictions* predictions) {
  comm::Communicator& world = model_.groups().world;
  const auto outputs = static_cast<std::size_t>(width());
  if (world.rank() != 0) {
    const auto count = static_cast<std::int64_t>(samples_.size());
    world.send(std::as_bytes(std::span(&count, 1)), 0);
    world.send(std::as_bytes(std::span(samples_)), 0);
    world.send(std::as_bytes(std::span(logits_)), 0);
  } else {
    for (int peer = 1; peer < world.size(); ++peer) {
      std::int64_t count = 0;
      world.receive(std::as_writable_bytes(std::span(&count, 1)), peer);
      const std::size_t begin = samples_.size(), more = static_cast<std::size_t>(count);
      samples_.resize(begin + more);
      logits_.resize((begin + more) * outputs);
      world.receive(std::as_writable_bytes(std::span(samples_).subspan(begin)), peer);
      world.receive(std::as_writable_bytes(std::span(logits_).subspan(begin * outputs)), peer);
    }
    in_order_.resize(logits_.size());
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const std::int64_t place = samples_[i] - delivered_;
      core::require(place >= 0 && place < std::ssize(samples_), "a step has the next samples of the data");
      std::copy_n(logits_.begin() + static_cast<std::ptrdiff_t>(i * outputs), outputs,
                  in_order_.begin() + place * static_cast<std::ptrdiff_t>(outputs));
    }
    deliver(in_order_, predictions);
    delivered_ += std::ssize(samples_);
  }
  samples_.clear();
  logits_.clear();
}

/// On rank 0: (samples, width()) of the next samples.
void Evaluator::deliver(std::span<const float> outputs, Predictions* predictions) {
  if (answers_) {
    const auto width = static_cast<std::size_t>(this->width());
    for (std::size_t i = 0; i < outputs.size(); i += width) {
      answers_->add(outputs.subspan(i, width), predictions != nullptr ? &predictions->answers : nullptr);
    }
    return;
  }
  predictions->outputs = width();
  predictions->logits.insert(predictions->logits.end(), outputs.begin(), outputs.end());
}

}  // namespace bert_hpc::app
