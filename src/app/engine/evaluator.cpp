#include "app/engine/evaluator.hpp"

#include <algorithm>

#include "app/engine/data_sets.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/metrics/entities.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::app {

metrics::EvaluatedSet evaluated_set(const ModelInstance& model, const data::ShardReader& reader) {
  return {.outputs = model.config.num_labels(),
          .columns = model.config.label_names,
          .values = reader.values(),
          .classes = reader.classes(),
          .sets = reader.sets(),
          .entity_types =
              model.objective.task->has_words() ? std::ssize(metrics::entity_types(model.config.label_names)) : 0,
          .levels = reader.levels(),
          .row_texts = reader.groups().size() > 1 ? reader.groups()[1] - reader.groups()[0] : 2,
          .least_output = model.output_rules.least_output,
          .value_levels = model.output_rules.levels};
}

Evaluator::Evaluator(ModelInstance& model, data::ShardReader& reader, const data::SourceRows& rows,
                     const config::Config& input, const data::BatchLoaderOptions& options, bool labels,
                     std::mutex& hdf5)
    : model_(model),
      reader_(reader),
      rows_(rows),
      loader_(reader, options),
      labels_(labels),
      loss_(1),
      metrics_(evaluation()) {
  predicted_ = core::MirroredArray<std::int32_t>(bounds().selected);
  if (metrics_.reads_confidences()) confidences_ = core::MirroredArray<float>(bounds().selected);
  results_ = model.objective.results({.task = input.task,
                                      .reader = reader,
                                      .rows = rows_,
                                      .label_names = model.config.label_names,
                                      .outputs = model.outputs(),
                                      .rules = model.output_rules,
                                      .probabilities = input.predictions.probabilities,
                                      .evaluation = labels ? &metrics_ : nullptr,
                                      .hdf5 = hdf5});
}

metrics::Evaluation Evaluator::evaluation() const {
  metrics::EvaluatedSet set = evaluated_set(model_, reader_);
  if (rows_.has_windows()) {
    set.values = rows_.values();
    set.classes = rows_.classes();
    set.sets = rows_.sets();
  }
  return {model_.objective.task->metrics, set};
}

layers::BatchBounds Evaluator::bounds() const {
  return model_bounds(loader_);
}

std::span<const core::PlannedSample> Evaluator::samples_of(int micro_batch) const {
  const int first = loaded_->plan.replica_begin[static_cast<std::size_t>(model_.coordinates.data)];
  return loaded_->plan.micro_batch(first + micro_batch);
}

/// outputs: (rows of the logits, outputs), or (rows of the head) losses. Of heads that read all tokens, a sequence's
/// padding comes last.
void Evaluator::keep(int micro_batch, const core::TokenRows& rows, std::span<const float> outputs) {
  const auto columns = results_->keeps_losses() ? std::size_t{1} : static_cast<std::size_t>(model_.outputs());
  const bool pools = model_.objective.head.pooling.has_value();
  std::size_t s = 0;
  for (const core::PlannedSample& sample : samples_of(micro_batch)) {
    const auto begin = pools ? s : static_cast<std::size_t>(rows.offsets[s]);
    const std::int32_t all = pools ? 1 : rows.offsets[s + 1] - rows.offsets[s];
    const auto count = static_cast<std::size_t>(std::min(all, sample.length));
    const std::int64_t width = results_->width(sample.index);
    results_->keep(sample.index, outputs.subspan(begin * columns, count * columns), kept_.add(sample.index, width));
    ++s;
  }
}

void Evaluator::result(int micro_batch, model::Stage& stage, int slot) {
  const layers::StepContext& pass = passes_[static_cast<std::size_t>(micro_batch)];
  const core::MicroBatch& batch = loaded_->micro_batches[static_cast<std::size_t>(micro_batch)].on_host;
  const std::int64_t rows = pass.batch.targets.rows.count;
  const bool adds = labels_ && !results_->makes_metrics(), predicts = adds && metrics_.reads_predicted();
  if (predicts) stage.predict(predicted_.device(), slot);
  if (model_.coordinates.tensor != 0) return;  // those ranks know the same
  const auto logits = [&] {
    const core::Tensor<float> all = stage.logits(slot).as<float>();  // contiguous: not of a tied decoder
    const std::span<const float> outputs(all.data, static_cast<std::size_t>(all.size()));
    const std::span<const float> here = core::on_host(outputs, staging_);
    if (results_->makes_metrics()) return here;
    return objectives::outputs_in_labels_unit(model_.output_rules.scales, model_.output_rules.range, here,
                                              in_labels_unit_);
  };
  const auto losses = [&] {
    return core::on_host(std::span<const float>(stage.row_losses(slot), static_cast<std::size_t>(rows)), staging_);
  };
  if (keep_) keep(micro_batch, batch.targets.rows, results_->keeps_losses() ? losses() : logits());
  if (!computes_losses()) return;
  ops::sum(stage.row_losses(slot), rows, loss_.device());
  const double loss = loss_.to_host(1)[0];
  if (!adds) {
    window_loss_.sum += loss;
    window_loss_.targets += static_cast<double>(core::target_count(batch));
    return;
  }
  metrics::Results results{.batch = batch};
  if (predicts) {
    const std::span<std::int32_t> predicted = predicted_.to_host(rows);
    std::size_t s = 0;
    for (const core::PlannedSample& sample : samples_of(micro_batch)) {
      const auto begin = static_cast<std::size_t>(batch.targets.rows.offsets[s]);
      const auto end = static_cast<std::size_t>(batch.targets.rows.offsets[++s]);
      results_->replace_predicted(sample.index, predicted.subspan(begin, end - begin));
    }
    results.predicted = predicted;
  }
  if (metrics_.reads_confidences()) {
    ops::largest_probability(stage.logits(slot), confidences_.device());
    results.confidences = confidences_.to_host(rows);
  }
  if (metrics_.reads_outputs()) results.outputs = logits();
  if (metrics_.reads_losses()) results.losses = losses();
  metrics_.add(loss, results);
}

/// What rank 0 makes of the windows' results may fail, as on a full disk: then all ranks leave together.
bool Evaluator::pass_over_data(const std::function<bool()>& give_up, const objectives::PredictionsFacts* predictions) {
  comm::Communicator& world = model_.groups().world;
  metrics_ = evaluation();
  keep_ = predictions != nullptr || !results_->is_for_files_alone();
  delivered_ = 0;
  window_loss_ = {};
  std::unique_ptr<objectives::ResultCollector> collector;  // rank 0
  const auto on_root = [&](const std::function<void()>& work) {
    if (!keep_) return;
    collectively(world, [&] {
      if (world.rank() == 0) work();
    });
  };
  on_root([&] {
    if (predictions != nullptr) predictions->require_directory();
    collector = results_->collect(predictions);
  });
  loader_.restart(0);
  while (loader_.has_next()) {
    if (give_up()) return false;
    loaded_ = &loader_.next();
    passes_.clear();
    for (const data::LoadedMicroBatch& micro : loaded_->micro_batches) passes_.push_back({.batch = micro.batch});
    model_.pipeline().evaluate(model_.engine(), passes_, computes_losses(), *this);
    if (keep_) kept_.gather(world, 0);
    on_root([&] {
      const std::int64_t first = delivered_;
      delivered_ += kept_.samples();
      kept_.deliver(
          first, [this](std::int64_t sample) { return results_->width(sample); },
          [&collector](std::int64_t, std::span<const float> kept) { collector->add(kept); });
    });
  }
  if (keep_ && results_->makes_loss()) metrics_.set_loss({});
  on_root([&] {
    if (predictions != nullptr) predictions->require_directory();
    collector->finish(labels_ ? &metrics_ : nullptr);
  });
  if (computes_losses() && results_->makes_metrics()) metrics_.set_loss(window_loss_);
  world.all_reduce(metrics_.sums(), comm::Reduction::sum);
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
  row.type_counts = metrics_.type_counts();
  return row;
}

std::optional<io::EvaluationRow> Evaluator::evaluate_unless(std::int64_t step, const std::function<bool()>& give_up,
                                                            const objectives::PredictionsFacts* predictions) {
  if (!pass_over_data(give_up, predictions)) return std::nullopt;
  return row(step);
}

}  // namespace bert_hpc::app
