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

#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/io/predictions.hpp"
#include "bert_hpc/objectives/prediction.hpp"
#include "bert_hpc/objectives/predictions_csv.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::objectives {

/// Root attribute of predictions.h5: core::hash_of_lines() of the shards' seals.
inline constexpr const char* data_hash_attribute = "data_hash";

/// Directory of the files of predictions, and what they say of the split and the model.
struct PredictionsFacts {
  std::string directory;
  const tasks::Task& task;
  Predict predict;                        ///< null for tasks that do not predict for each sample
  std::string split;                      ///< "test" or "validation"
  std::vector<std::string> label_names;   ///< of the outputs
  double least_output = 0;                ///< as of metrics::EvaluatedSet
  std::span<const float> value_levels{};  ///< the same
  /// Throws Error(files) if the directory belongs to another run now.
  std::function<void()> require_directory;
};

/// DIRECTORY/predictions.h5 and DIRECTORY/predictions.csv, some samples at a time in the data's order.
class PredictionTables {
 public:
  /// `columns`: of no rows. `reader`, whose source_index() the rows have, must outlive it. `hdf5` is held during HDF5
  /// calls. Throws Error(files), as do all functions below.
  PredictionTables(const PredictionsFacts& facts, const data::ShardReader& reader, const PredictedRows& columns,
                   std::mutex& hdf5);
  ~PredictionTables();  ///< without close(), unfinished files are removed
  PredictionTables(const PredictionTables&) = delete;
  PredictionTables& operator=(const PredictionTables&) = delete;

  /// Appends predictions of the next samples.
  void append(std::int64_t samples, const PredictedRows& rows);
  std::int64_t samples() const { return samples_; }  ///< appended so far
  /// Appends rows of the source instead of samples.
  void append_rows(std::span<const std::int64_t> source_index, const PredictedRows& rows);
  /// Begins the table of these rows' windows in predictions.h5. `columns`: the columns, without elements.
  void add_windows(const PredictedRows& columns);
  void append_windows(std::span<const std::int64_t> source_index, const PredictedRows& windows);
  void close();

 private:
  const data::ShardReader& reader_;
  std::mutex& hdf5_;
  std::unique_ptr<io::PredictionsWriter> file_;
  PredictionsCsv text_;
  std::int64_t samples_ = 0;
};

}  // namespace bert_hpc::objectives
