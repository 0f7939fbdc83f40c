#include "bert_hpc/app/engine/evaluator.hpp"

#include <algorithm>

#include "bert_hpc/app/engine/data_sets.hpp"
#include "bert_hpc/app/engine/label_unit.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::app {
Evaluator::Evaluator(ModelInstance& model, data::ShardReader& reader, const data::BatchLoaderOptions& options,
                     bool labels)
    : model_(model), reader_(reader), loader_(reader, options), labels_(labels), loss_(1), metrics_(evaluation()) {
  predicted_ = core::MirroredArray<std::int32_t>(bounds().selected);
  if (metrics_.reads_confidences()) confidences_ = core::MirroredArray<float>(bounds().selected);
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
  if (keep_) keep(micro_batch, logits());
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

bool Evaluator::pass_over_data(const std::function<bool()>& give_up) {
  metrics_ = evaluation();
  samples_.clear();
  logits_.clear();
  loader_.restart(0);
  while (loader_.has_next()) {
    if (give_up()) return false;
    loaded_ = &loader_.next();
    passes_.clear();
    for (const data::LoadedMicroBatch& micro : loaded_->micro_batches) passes_.push_back({.batch = micro.batch});
    model_.pipeline().evaluate(model_.engine(), passes_, *this);
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
  keep_ = predictions != nullptr;
  if (!pass_over_data(give_up)) return std::nullopt;
  if (keep_) gather(*predictions);
  return row(step);
}

void Evaluator::gather(Predictions& predictions) const {
  comm::Communicator& world = model_.groups().world;
  const auto outputs = static_cast<std::size_t>(model_.outputs());
  if (world.rank() != 0) {
    const auto count = static_cast<std::int64_t>(samples_.size());
    world.send(std::as_bytes(std::span(&count, 1)), 0);
    world.send(std::as_bytes(std::span(samples_)), 0);
    world.send(std::as_bytes(std::span(logits_)), 0);
    return;
  }
  predictions.outputs = static_cast<std::int64_t>(outputs);
  predictions.logits.resize(static_cast<std::size_t>(reader_.samples()) * outputs);
  const auto place = [&](const std::vector<std::int64_t>& samples, const std::vector<float>& logits) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::copy_n(
          logits.begin() + static_cast<std::ptrdiff_t>(i * outputs), outputs,
          predictions.logits.begin() + static_cast<std::ptrdiff_t>(samples[i]) * static_cast<std::ptrdiff_t>(outputs));
    }
  };
  place(samples_, logits_);
  for (int peer = 1; peer < world.size(); ++peer) {
    std::int64_t count = 0;
    world.receive(std::as_writable_bytes(std::span(&count, 1)), peer);
    std::vector<std::int64_t> samples(static_cast<std::size_t>(count));
    std::vector<float> logits(static_cast<std::size_t>(count) * outputs);
    world.receive(std::as_writable_bytes(std::span(samples)), peer);
    world.receive(std::as_writable_bytes(std::span(logits)), peer);
    place(samples, logits);
  }
}

}  // namespace bert_hpc::app
