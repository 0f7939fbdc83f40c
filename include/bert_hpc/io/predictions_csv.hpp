// RUN/predictions.csv: the rows of predictions.h5 as text.
//
// Classification: row, label, prediction, probability, and a column "probability_NAME" per class where there are at
// most most_class_columns of them. `label` and `prediction` are class names, `probability` is that of the predicted
// class. Regression: row, label, prediction. `row` is the row of the source text; an unknown label is an empty field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/io/csv_file.hpp"

namespace bert_hpc::io {

class PredictionsCsv {
 public:
  /// Classes beyond these have no columns of their own: spreadsheets and people read no such table.
  static constexpr std::int64_t most_class_columns = 100;

  /// `classes` = 0: regression. A class without a name goes by its id. Throws Error(files).
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
