// The files of a split's predictions. Rows go to them while results come, so that memory does not grow with the
// samples; the files get their names when the last one is written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/io/predictions.hpp"
#include "bert_hpc/io/predictions_csv.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::app {

/// Where files of predictions go, and what they say of the split and the model.
struct PredictionsFacts {
  std::string directory;
  const objectives::Objective& objective;  ///< which predicts for each sample
  std::string split;                       ///< "test" or "validation"
  std::vector<std::string> label_names;    ///< of the outputs
  double least_output = 0;                 ///< as of metrics::EvaluatedSet
  std::span<const float> value_levels{};   ///< the same
  /// Throws Error(files) where the directory belongs to another run now.
  std::function<void()> require_directory;
};

/// Of sets of label names: a name is in the predicted set from this output on. It is the logit of [task] threshold, 0
/// for the default of 0.5, which also holds until a threshold is found.
double least_output(const config::Task& task);
/// The logit whose sigmoid is this.
double output_of(double probability);

/// DIRECTORY/predictions.h5 and DIRECTORY/predictions.csv, some samples at a time in the data's order.
class PredictionTables {
 public:
  /// `columns`: of no rows. `reader`, whose source_index() the rows have, must outlive it. `hdf5` is held during HDF5
  /// calls. Throws Error(files), as do all functions below.
  PredictionTables(const PredictionsFacts& facts, const data::ShardReader& reader,
                   const objectives::PredictedRows& columns, std::mutex& hdf5);
  ~PredictionTables();  ///< without close(), unfinished files are removed
  PredictionTables(const PredictionTables&) = delete;
  PredictionTables& operator=(const PredictionTables&) = delete;

  /// Of the next samples.
  void append(std::int64_t samples, const objectives::PredictedRows& rows);
  std::int64_t samples() const { return samples_; }  ///< appended so far
  /// Appends rows of the source instead of samples.
  void append_rows(std::span<const std::int64_t> source_index, const objectives::PredictedRows& rows);
  /// Begins the table of these rows' windows in predictions.h5. `columns`: the columns, without elements.
  void add_windows(const objectives::PredictedRows& columns);
  void append_windows(std::span<const std::int64_t> source_index, const objectives::PredictedRows& windows);
  void close();

 private:
  const data::ShardReader& reader_;
  std::mutex& hdf5_;
  std::unique_ptr<io::PredictionsWriter> file_;
  io::PredictionsCsv text_;
  std::int64_t samples_ = 0;
};

}  // namespace bert_hpc::app
