// Predictions and metrics of rows of text that were cut into windows: of a row's outputs, which are those of its
// windows pooled ([task] windows). Predictions of windows are in predictions.h5 too.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "app/engine/label_unit.hpp"
#include "app/engine/sample_results.hpp"
#include "bert_hpc/data/label_scale.hpp"
#include "bert_hpc/data/source_rows.hpp"
#include "bert_hpc/tasks/window_pooling.hpp"

namespace bert_hpc::app {

struct WindowSettings {
  const data::SourceRows& rows;
  std::int64_t outputs = 0;  ///< of a sequence, which are kept as the model makes them
  tasks::WindowPooling pooling = tasks::WindowPooling::mean;
  // Applied to pooled outputs:
  const data::LabelScale& scale;
  const PredictionRange& range;
  /// Gets the results of all rows, but no loss, on rank 0. Null: there are no labels.
  metrics::Evaluation* evaluation = nullptr;
};

/// All that is referred to must outlive it. `hdf5` is held during HDF5 calls.
std::unique_ptr<SampleResults> window_results(const data::ShardReader& reader, const WindowSettings& settings,
                                              std::mutex& hdf5);

}  // namespace bert_hpc::app
