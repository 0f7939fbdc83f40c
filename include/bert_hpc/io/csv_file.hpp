// A table as text for spreadsheets: UTF-8, fields separated by commas and quoted as RFC 4180 says, lines that end in
// LF. Rows are written as they come, so that a table of any length takes no memory; close() renames the file to its
// name, which stands for a whole table only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace bert_hpc::io {

class CsvFile {
 public:
  /// Throws Error(files), as all below.
  explicit CsvFile(const std::string& path);
  ~CsvFile();  ///< without close(), the unfinished file is removed
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  /// The row's next field.
  void text(std::string_view field);
  void number(std::int64_t value);
  void number(float value);  ///< the shortest text that reads back as the same float; NaN: an empty field
  void empty() { text({}); }
  void end_row();

  void close();  ///< finishes the file, forces it to the disk and renames it

 private:
  struct State;
  void separate();
  void flush();

  std::unique_ptr<State> state_;
};

/// A field as it stands in the file: in quotes where it holds a comma, a quote or a line end.
std::string csv_field(std::string_view field);

}  // namespace bert_hpc::io
