// Runs a model over a data set without training: sums for metrics, and where asked the prediction of every sample.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/app/engine/answer_scorer.hpp"
#include "bert_hpc/app/engine/model_instance.hpp"
#include "bert_hpc/app/engine/predictions.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "bert_hpc/metrics/metric.hpp"

namespace bert_hpc::app {

class Evaluator : private train::PipelineEvents {
 public:
  /// All but `task` must outlive it. `labels`: the data have targets. `hdf5` is held while files are read. Throws
  /// Error(data) where a task with answers is to be evaluated on data without their texts.
  Evaluator(ModelInstance& model, data::ShardReader& reader, const config::Task& task,
            const data::BatchLoaderOptions& options, bool labels, std::mutex& hdf5);

  layers::BatchBounds bounds() const;  ///< of its micro-batches

  /// Collective over all ranks of the model's grid. Every sample exactly once, shared out over the replicas; the
  /// last stages report the results. `step` goes into the row. `predictions` is filled on rank 0 where it is not null.
  /// `give_up`, which is collective, is asked before every window of samples: no results where it says so.
  std::optional<io::EvaluationRow> evaluate_unless(std::int64_t step, const std::function<bool()>& give_up,
                                                   Predictions* predictions = nullptr);

  /// Of the last pass over data with labels, the same on every rank.
  std::optional<metrics::OneAnswer> one_answer() const { return metrics_.one_answer(); }

 private:
  /// False if given up.
  bool pass_over_data(const std::function<bool()>& give_up, Predictions* predictions);
  metrics::Evaluation evaluation() const;  ///< of nothing yet
  io::EvaluationRow row(std::int64_t step);
  void result(int micro_batch, model::Stage& stage, int slot) override;
  std::span<const core::PlannedSample> samples_of(int micro_batch) const;
  void keep(int micro_batch, std::span<const float> logits);
  void keep_spans(int micro_batch, std::span<const float> logits);
  std::int64_t width() const;  ///< numbers that are kept of a sample
  void gather_step(Predictions* predictions);
  void deliver(std::span<const float> outputs, Predictions* predictions);

  ModelInstance& model_;
  data::ShardReader& reader_;
  data::BatchLoader loader_;
  bool labels_;
  // Of this rank and the step under way, where results of samples are gathered: for predictions, and for answers,
  // which are made on rank 0.
  bool keep_ = false;
  std::vector<std::int64_t> samples_;
  std::vector<float> logits_;
  std::vector<float> in_order_;
  std::int64_t delivered_ = 0;  // samples of earlier steps
  std::mutex& hdf5_;
  std::optional<objectives::AnswerSettings> answer_settings_;  // of tasks with answers
  std::optional<AnswerScorer> answers_;                        // rank 0
  std::vector<float> in_labels_unit_;            // a micro-batch's predictions, where training has another unit
  std::vector<float> aside_;                     // a micro-batch's logits, where the host cannot see them in place
  core::MirroredArray<std::int32_t> predicted_;  // (rows of a micro-batch that the head reads)
  core::MirroredArray<float> confidences_;       // (those rows), where metrics read them
  core::MirroredArray<double> loss_;             // (1)
  // The step under way.
  const data::LoadedStep* loaded_ = nullptr;
  std::vector<layers::StepContext> passes_;
  metrics::Evaluation metrics_;
};

}  // namespace bert_hpc::app
