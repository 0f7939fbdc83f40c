// RUN/predictions.csv: the rows of predictions.h5 as text.
//
// Classification: row, label, prediction, probability, and one column "probability_NAME" per class if there are at most
// most_class_columns classes. `label` and `prediction` are class names, `probability` is that of the predicted class.
// Regression: row, label, prediction. `row` is the row of the source text; an unknown label is an empty field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/io/csv_file.hpp"

namespace bert_hpc::io {

class PredictionsCsv {
 public:
  /// With more classes than this there are no columns per class; a wider table is of no use in a spreadsheet.
  static constexpr std::int64_t most_class_columns = 100;

  /// `classes` = 0: regression. A class without a name is written as its id. Throws Error(files).
  PredictionsCsv(const std::string& path, const std::vector<std::string>& label_names, std::int64_t classes);

  /// As PredictionsWriter::append.
  void append(std::span<const std::int64_t> source_index, std::span<const std::int32_t> label,
              std::span<const std::int32_t> prediction, std::span<const float> probabilities);
  void append(std::span<const std::int64_t> source_index, std::span<const float> label,
              std::span<const float> prediction);

  void close() { file_.close(); }  ///< finishes and renames; throws Error(files)

 private:
  std::string class_name(std::int64_t id) const;

  CsvFile file_;
  std::vector<std::string> label_names_;
  std::int64_t classes_;
};

}  // namespace bert_hpc::io
