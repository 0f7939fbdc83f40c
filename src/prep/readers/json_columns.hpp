// A table whose columns are members of one JSON object, as lists (json.dump of columns) or as objects with a name for
// each row (pandas' to_json). Internal to the module.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::prep {

class JsonColumns {
 public:
  /// Reads the columns `names` from `object`, which begins at `line` of `file` and must outlive this. Throws
  /// Error(data) if it cannot be read or lacks one of them.
  JsonColumns(std::string_view object, std::int64_t line, const std::vector<std::string>& names, std::string file);

  /// The next row as an object; false after the last. Throws Error(data) if the columns have different rows.
  bool next(std::string& object);
  std::int64_t line() const { return line_; }  ///< on which the row's first cell begins

 private:
  struct Column {
    std::string name;            // in quotes
    std::string_view rest = {};  // of its cells
    std::string_view cell = {}, key = {};
    bool has_keys = false;
  };

  void find_columns(std::string_view object, const std::vector<std::string>& names);
  bool next_cell(Column& column);
  std::string_view take_value(std::string_view& text) const;
  void take(std::string_view& text, char byte) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::string file_;
  std::vector<Column> columns_;
  std::int64_t line_ = 1, rows_ = 0;
  const char* counted_ = nullptr;  // line_ is that of this byte
};

}  // namespace bert_hpc::prep
