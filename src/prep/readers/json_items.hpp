// The values of a JSON file one after the other, whatever holds them: lines (JSON Lines), a list, the list in the
// member "data" of one object, the members of one object, nothing (objects that take several lines each), or columns of
// a table, each a member of one object. The file may have any size, but columns must fit into 64 MiB: a value is cut
// out by its brackets alone. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/prep/readers/line_source.hpp"
#include "json_columns.hpp"
#include "json_scan.hpp"

namespace bert_hpc::prep {

class JsonItems {
 public:
  enum class Holder { lines, objects, list, document, members, columns };

  /// Names that the objects are expected to have, and those of them whose values may be lists.
  struct Members {
    std::vector<std::string> names;
    std::vector<std::string> lists;
  };

  /// An outermost object that has one of `members` is a value itself, or a table by columns; without names, one that
  /// cannot be read is a document. item: what messages call a value. Throws as LineSource does.
  JsonItems(const std::string& file, const std::string& encoding, const Members& members, const char* item);

  /// The next value's bytes, which last until the next call; false after the last, and then the file has been read to
  /// its end. Throws Error(data) with the position if what holds the values is not JSON, or a value is longer than 64
  /// MiB.
  bool next(std::string_view& text);

  Holder holder() const { return holder_; }
  /// Columns of values that are lists: the member "columns" of a document, if it comes before "data".
  const std::vector<std::string>& columns() const { return columns_; }
  const std::string& file() const { return source_.file(); }
  std::int64_t number() const { return number_; }  ///< of the value, from 1
  std::int64_t line() const { return line_; }      ///< on which the value begins, from 1
  std::int64_t offset() const { return offset_; }  ///< bytes of the file before the value

 private:
  Holder find_holder(const Members& members);
  void begin_columns(const std::vector<std::string>& names);
  bool next_line(std::string_view& text);
  bool next_object(std::string_view& text);
  bool next_element(std::string_view& text);
  bool next_row(std::string_view& text);
  bool find_data(bool first);
  void end_file(char bracket);
  char next_byte();
  void take(char byte, const char* otherwise);
  void skip_value();
  void read_columns();
  std::string_view value(const std::string& name);
  void begin_item();
  [[noreturn]] void refuse(const std::string& why) const;

  LineSource source_;
  std::string item_;
  Holder holder_ = Holder::lines;
  std::vector<std::string> columns_;
  std::string object_, row_;  // of a table by columns: all of it, and the next value
  std::optional<JsonColumns> table_;
  bool at_end_ = false;
  std::int64_t number_ = 0, line_ = 0, offset_ = 0;
};

}  // namespace bert_hpc::prep
