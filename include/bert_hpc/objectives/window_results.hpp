// Predictions and metrics of rows of text that were cut into windows: of a row's outputs, which are those of its
// windows pooled ([task] windows). Predictions of windows are in predictions.h5 too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bert_hpc/data/source_rows.hpp"
#include "bert_hpc/objectives/sample_results.hpp"

namespace bert_hpc::objectives {

/// "8 rows in 26 windows; predictions and metrics are of rows, …"; "" without windows.
std::string windows_text(const config::Task& task, const data::SourceRows& rows, std::int64_t windows);

/// Results of tasks with a prediction for each row of text: those of its windows pooled, or of the row if it has none.
std::unique_ptr<SampleResults> row_or_window_results(const ResultsRequest& data);

}  // namespace bert_hpc::objectives
