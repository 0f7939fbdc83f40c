// RUN/predictions.h5: one row per sequence, or per row of text that was cut into windows, in input order. Rows go to a
// staging file that close() renames, so the final name always holds a complete file.
//
// Datasets: /source_index int64 (rows), and the columns that the task's objective predicts (objectives/prediction.hpp).
// The group /windows, if rows have windows, holds the same for each window.
// Root attributes: schema, task, label_names, rows, and what the caller adds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace bert_hpc::io {

/// Some rows of a column of the files of predictions. predictions.h5 takes numbers; predictions.csv takes numbers and
/// text of one element a row.
struct PredictionColumn {
  std::string name;
  std::variant<std::vector<std::int32_t>, std::vector<float>, std::vector<std::string>> values;
  std::int64_t width = 0;  ///< elements of a row, with a dimension of their own; 0: one, without
};

struct PredictionsInfo {
  std::string task;                                             ///< as in the input file
  std::vector<std::string> label_names;                         ///< of the outputs; empty if they have none
  std::vector<std::pair<std::string, std::string>> attributes;  ///< further root attributes
};

class PredictionsWriter {
 public:
  /// `columns`: names, types and widths; their values do not count. Throws Error(files).
  PredictionsWriter(const std::string& path, const PredictionsInfo& info, std::span<const PredictionColumn> columns);
  ~PredictionsWriter();  ///< without close(), the unfinished file is removed
  PredictionsWriter(const PredictionsWriter&) = delete;
  PredictionsWriter& operator=(const PredictionsWriter&) = delete;

  /// As many rows of each column as of source_index (rows). The columns are those of the constructor.
  void append(std::span<const std::int64_t> source_index, std::span<const PredictionColumn> columns);

  /// Makes the group /windows. Before the first append_windows().
  void add_windows(std::span<const PredictionColumn> columns);
  /// Appends rows of windows, like append().
  void append_windows(std::span<const std::int64_t> source_index, std::span<const PredictionColumn> columns);

  void close();  ///< finishes and renames; throws Error(files)

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads predictions.h5; one thread at a time.
class PredictionsReader {
 public:
  /// Throws Error(data), as all functions do, unless the file is one of predictions.
  explicit PredictionsReader(const std::string& path);
  ~PredictionsReader();
  PredictionsReader(const PredictionsReader&) = delete;
  PredictionsReader& operator=(const PredictionsReader&) = delete;

  const std::string& path() const;
  const PredictionsInfo& info() const;                   ///< without further attributes
  std::string attribute(const std::string& name) const;  ///< "" if there is none
  std::int64_t rows() const;
  bool has_windows() const;
  bool has(const std::string& column) const;
  std::int64_t columns(const std::string& column) const;  ///< elements of a row
  std::vector<std::int64_t> source_index() const;
  std::vector<float> read(const std::string& column) const;  ///< (rows, columns)

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::io
