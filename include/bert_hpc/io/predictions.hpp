// RUN/predictions.h5: one row per sequence, in input order. Rows go to a staging file that close() renames, so the
// final name always holds a complete file.
//
// Classification: /source_index int64, /label int32 (−1 where unknown), /prediction int32, /probabilities float
// (rows, classes). Regression: /source_index, /label float (NaN where unknown), /prediction float. Root attributes:
// schema, task, label_names, rows, and what the caller adds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace bert_hpc::io {

struct PredictionsInfo {
  std::string task;                                             ///< as in the input file
  std::vector<std::string> label_names;                         ///< of the classes; empty for regression
  std::int64_t classes = 0;                                     ///< columns of /probabilities; 0 for regression
  std::vector<std::pair<std::string, std::string>> attributes;  ///< further root attributes
};

class PredictionsWriter {
 public:
  /// Throws Error(files).
  PredictionsWriter(const std::string& path, const PredictionsInfo& info);
  ~PredictionsWriter();  ///< without close(), the unfinished file is removed
  PredictionsWriter(const PredictionsWriter&) = delete;
  PredictionsWriter& operator=(const PredictionsWriter&) = delete;

  /// Classification: source_index, label, prediction (rows); probabilities (rows, classes). Empty label: all unknown.
  void append(std::span<const std::int64_t> source_index, std::span<const std::int32_t> label,
              std::span<const std::int32_t> prediction, std::span<const float> probabilities);
  /// Regression: all (rows). Empty label: all unknown.
  void append(std::span<const std::int64_t> source_index, std::span<const float> label,
              std::span<const float> prediction);

  void close();  ///< finishes and renames; throws Error(files)

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::io
