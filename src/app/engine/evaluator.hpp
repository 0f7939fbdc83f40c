// Runs a model over a data set without training: sums for metrics, and where asked the files of predictions. Samples go
// through it in windows; results are kept for one window only, but for what metrics need of each sample.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/model_instance.hpp"
#include "app/engine/step_results.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/data/source_rows.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "bert_hpc/metrics/metric.hpp"
#include "bert_hpc/objectives/sample_results.hpp"

namespace bert_hpc::app {

/// Description of the data set for metrics; `reader` must outlive it.
metrics::EvaluatedSet evaluated_set(const ModelInstance& model, const data::ShardReader& reader);

class Evaluator : private train::PipelineEvents {
 public:
  /// All but `input` must outlive it. rows: of windows, if predictions and metrics are of rows; none: each sequence is
  /// one. `labels`: the data have targets. `hdf5` is held while files are read. Throws
  /// Error(data) where a task with answers is to be evaluated on data without their texts.
  Evaluator(ModelInstance& model, data::ShardReader& reader, const data::SourceRows& rows, const config::Config& input,
            const data::BatchLoaderOptions& options, bool labels, std::mutex& hdf5);

  layers::BatchBounds bounds() const;  ///< of its micro-batches

  /// Collective over all ranks of the model's grid. Every sample exactly once, shared out over the replicas; the
  /// last stages report the results. `step` goes into the row. `give_up`, which is collective, is asked before every
  /// window of samples: no results where it says so. Rank 0 writes the files of `predictions`, where it is not null, as
  /// results come; they get their names after the last one. Throws Stop where rank 0 cannot write them.
  std::optional<io::EvaluationRow> evaluate_unless(std::int64_t step, const std::function<bool()>& give_up,
                                                   const objectives::PredictionsFacts* predictions = nullptr);

  /// Single prediction of the last pass over data with labels, if there was one; equal on every rank.
  std::optional<metrics::OneAnswer> one_answer() const { return metrics_.one_answer(); }

 private:
  /// False if given up.
  bool pass_over_data(const std::function<bool()>& give_up, const objectives::PredictionsFacts* predictions);
  metrics::Evaluation evaluation() const;  ///< of nothing yet
  io::EvaluationRow row(std::int64_t step);
  void result(int micro_batch, model::Stage& stage, int slot) override;
  /// Whether micro-batches have losses: unless rank 0 makes loss and metrics.
  bool computes_losses() const { return labels_ && !(results_->makes_loss() && results_->makes_metrics()); }
  std::span<const core::PlannedSample> samples_of(int micro_batch) const;
  void keep(int micro_batch, const core::TokenRows& rows, std::span<const float> outputs);

  ModelInstance& model_;
  data::ShardReader& reader_;
  const data::SourceRows& rows_;
  data::BatchLoader loader_;
  bool labels_;
  std::unique_ptr<objectives::SampleResults> results_;
  // Of this rank and the step under way, where results of samples are gathered:
  bool keep_ = false;
  StepResults kept_;
  std::int64_t delivered_ = 0;         // samples of earlier steps
  std::vector<float> in_labels_unit_;  // a micro-batch's predictions, where training has another unit
  std::vector<float> staging_;         // a micro-batch's logits or losses, where the host cannot see them in place
  core::MirroredArray<std::int32_t> predicted_;  // (rows of a micro-batch that the head reads)
  core::MirroredArray<float> confidences_;       // (those rows), where metrics read them
  core::MirroredArray<double> loss_;             // (1)
  // The step under way.
  const data::LoadedStep* loaded_ = nullptr;
  std::vector<layers::StepContext> passes_;
  metrics::LossSum window_loss_;  // of this rank, if the collector makes the metrics
  metrics::Evaluation metrics_;
};

}  // namespace bert_hpc::app
