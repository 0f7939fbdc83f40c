// RUN/predictions.csv: the rows of predictions.h5 as text. The column `row` is the row of the source text; the others
// are those that the task's objective shows (objectives/prediction.hpp). A number that is NaN is an empty field.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bert_hpc/io/csv_file.hpp"
#include "bert_hpc/io/predictions.hpp"

namespace bert_hpc::objectives {

class PredictionsCsv {
 public:
  /// `columns`: names; their values do not count. Throws Error(files).
  PredictionsCsv(const std::string& path, std::span<const io::PredictionColumn> columns);

  /// As PredictionsWriter::append, of columns without a width.
  void append(std::span<const std::int64_t> source_index, std::span<const io::PredictionColumn> columns);

  void close() { file_.close(); }  ///< finishes and renames; throws Error(files)

 private:
  io::CsvFile file_;
};

}  // namespace bert_hpc::objectives
