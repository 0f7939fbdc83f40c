// A CSV table for spreadsheets: UTF-8, fields separated by commas and quoted according to RFC 4180, lines ending in LF.
// Rows are streamed as io/text_file.hpp says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bert_hpc/io/text_file.hpp"

namespace bert_hpc::io {

class CsvFile {
 public:
  /// Throws Error(files), as do all functions below.
  explicit CsvFile(const std::string& path) : file_(path) {}

  /// Appends the next field of the row.
  void text(std::string_view field);
  void number(std::int64_t value);
  void number(float value);  ///< the shortest text that reads back as the same float; NaN gives an empty field
  void empty() { text({}); }
  void end_row();

  void close() { file_.close(); }

 private:
  void separate();

  TextFile file_;
  bool row_has_fields_ = false;
};

/// A field in CSV form: quoted if it holds a comma, a quote or a line end.
std::string csv_field(std::string_view field);

}  // namespace bert_hpc::io
