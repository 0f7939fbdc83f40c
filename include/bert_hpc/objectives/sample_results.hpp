// What is made of each sample's outputs beyond its micro-batch: predictions, and metrics of several sequences together.
// The rank that computes a sample keeps some numbers of it; rank 0 gets them in the order of the data. One kind a file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/data/source_rows.hpp"
#include "bert_hpc/metrics/metric.hpp"
#include "bert_hpc/objectives/output_rules.hpp"
#include "bert_hpc/objectives/prediction_files.hpp"

namespace bert_hpc::objectives {

/// Gets what was kept of the samples of one pass over the data; on rank 0.
class ResultCollector {
 public:
  virtual ~ResultCollector() = default;  ///< without finish(), unfinished files are removed

  /// The next sample. Throws Error(files), and Error(data) where texts of the shards are damaged.
  virtual void add(std::span<const float> kept) = 0;
  /// After the last one. Adds to the sums of its metrics where `evaluation` is not null; files get their names. Throws
  /// as add().
  virtual void finish(metrics::Evaluation* evaluation) = 0;
};

class SampleResults {
 public:
  virtual ~SampleResults() = default;

  /// Numbers that are kept of a sample.
  virtual std::int64_t width(std::int64_t sample) const = 0;
  /// outputs (rows of the sample that the head reads, outputs), in the labels' unit; kept (width()).
  virtual void keep(std::int64_t sample, std::span<const float> outputs, std::span<float> kept) const = 0;
  /// Whether keep() gets the rows' losses (rows of the sample that the head reads) instead of outputs.
  virtual bool keeps_losses() const { return false; }
  /// Replaces predicted classes (rows of the sample that the head reads) that do not follow from outputs.
  virtual void replace_predicted(std::int64_t /*sample*/, std::span<std::int32_t> /*predicted*/) const {}

  /// For a pass over the data, on rank 0. It writes files where `files` is not null: both, and this, must outlive it.
  /// Throws Error(files).
  virtual std::unique_ptr<ResultCollector> collect(const PredictionsFacts* files) const = 0;
  /// Whether the collector's finish() sets the loss, which then only rank 0 knows.
  virtual bool makes_loss() const { return false; }
  /// Whether a pass without files needs no collector.
  virtual bool is_for_files_alone() const { return false; }
  /// Whether the collector adds all metrics, so that micro-batches add none. keep() then gets outputs as they are.
  virtual bool makes_metrics() const { return false; }
};

/// A data set whose samples' outputs are collected, and what its results depend on. All must outlive the results.
struct ResultsRequest {
  const config::Task& task;
  const data::ShardReader& reader;
  const data::SourceRows& rows;                 ///< rows of text that were cut into windows; none otherwise
  const std::vector<std::string>& label_names;  ///< of the outputs
  std::int64_t outputs;                         ///< of a row that the head reads
  const OutputRules& rules;
  bool probabilities;               ///< [predictions] probabilities
  metrics::Evaluation* evaluation;  ///< gets results of rows of text; null: there are no labels
  std::mutex& hdf5;                 ///< held during HDF5 calls
};

/// Results of a task. Throws Error(data) if the data have no texts and the task needs them.
using MakeResults = std::unique_ptr<SampleResults> (*)(const ResultsRequest&);

/// The outputs themselves, for predictions alone: collect() needs files. `outputs`: of a row, of which each sample has
/// one. `reader` must outlive it. `hdf5` is held during HDF5 calls.
std::unique_ptr<SampleResults> row_results(const data::ShardReader& reader, std::int64_t outputs, std::mutex& hdf5);

/// The outputs themselves, for a collector that makes the loss and all metrics, such as those of embeddings. `outputs`:
/// of a sample.
std::unique_ptr<SampleResults> collected_outputs(std::int64_t outputs,
                                                 std::function<std::unique_ptr<ResultCollector>()> collector);

/// Throws Error(data) if the data have no texts, which predictions need.
void require_texts(const data::ShardReader& reader);

}  // namespace bert_hpc::objectives
