// Lists in a column: arrays of JSON, and cells of tables that hold a list as a program printed it: JSON, Python's
// lists, tuples and sets, NumPy's arrays (pandas writes a column of them so). Internal to the module.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {

struct ListEntry {
  enum class Kind { text, whole, real, truth };  ///< truth: "1" or "0"
  std::string text;
  Kind kind = Kind::text;
};

enum class ListForm { none, list, unreadable };

/// Reads a cell in brackets. none: it is not one. unreadable: it has brackets, but not the entries of a list.
ListForm read_list(std::string_view cell, std::vector<ListEntry>& entries);

/// A number as an entry: 27.0 is "27".
ListEntry number_entry(std::string_view number);

/// The lists of one column of rows as the texts that readers give (RowFormat::list_separator).
class ListColumn {
 public:
  ListColumn(const RowFormat& format, std::string column);

  /// Whether `format` has lists in this column.
  static bool is_in(const RowFormat& format, const std::string& column);

  /// Replaces a cell that holds a list by its text in `storage`. Returns why the row cannot be read; "" if it can.
  std::string read_cell(std::string_view& cell, std::string& storage);

  /// The same for entries.
  std::string join(std::vector<ListEntry>& entries, std::string& text) const;

 private:
  std::string split_names(std::string_view cell, std::string& text) const;

  const RowFormat& format_;
  std::string column_;
  bool has_words_;  // and tags, of which each is an entry; otherwise a set of label names
  std::vector<ListEntry> entries_;
};

}  // namespace bert_hpc::prep
