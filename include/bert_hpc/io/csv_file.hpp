// A CSV table for spreadsheets: UTF-8, fields separated by commas and quoted according to RFC 4180, lines ending in LF.
// Rows are streamed to a staging file, so memory does not grow with the table; close() renames it, so the final name
// always holds a complete table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace bert_hpc::io {

class CsvFile {
 public:
  /// Throws Error(files), as do all functions below.
  explicit CsvFile(const std::string& path);
  ~CsvFile();  ///< without close(), the unfinished file is removed
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  /// Appends the next field of the row.
  void text(std::string_view field);
  void number(std::int64_t value);
  void number(float value);  ///< the shortest text that reads back as the same float; NaN gives an empty field
  void empty() { text({}); }
  void end_row();

  void close();  ///< finishes the file, forces it to the disk and renames it

 private:
  struct State;
  void separate();
  void flush();

  std::unique_ptr<State> state_;
};

/// A field in CSV form: quoted if it holds a comma, a quote or a line end.
std::string csv_field(std::string_view field);

}  // namespace bert_hpc::io
