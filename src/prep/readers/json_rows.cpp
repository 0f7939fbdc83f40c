// JSON: an object a row, on a line each (JSON Lines) or in another holder (json_items.hpp). An object that cannot be
// read is a row with a problem, and the next is read.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_depth.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "json_items.hpp"
#include "json_value.hpp"
#include "list_cells.hpp"

namespace bert_hpc::prep {
namespace {

using nlohmann::json;

const std::string pandas_advice = "; if pandas wrote the file, write it with to_json(orient=\"records\")";
constexpr int deepest_row = 100;  // the JSON parser takes many times a deep row's bytes

class JsonRows : public RowReader {
 public:
  JsonRows(const std::string& file, const RowFormat& format, const std::vector<std::string>& columns)
      : items_(file, format.encoding, {columns, format.list_columns}, "object"),
        format_(format),
        columns_(columns),
        storage_(columns.size()) {
    for (const std::string& column : columns_) {
      const bool has_lists = ListColumn::is_in(format_, column);
      lists_.push_back(has_lists ? std::make_unique<ListColumn>(format_, column) : nullptr);
    }
  }

  bool next(Row& row) override {
    std::string_view text;
    if (!items_.next(text)) return false;
    row.number = items_.number();
    row.line = items_.line();
    row.problem.clear();
    row.values.assign(columns_.size(), std::nullopt);
    row.keys.clear();
    row.malformed = false;
    read_object(text, row);
    return true;
  }

 private:
  void read_object(std::string_view text, Row& row) {
    if (!tokenize::is_valid_utf8(text)) {
      valid_ = tokenize::valid_utf8(text);  // the parser takes nothing else
      text = valid_;
      row.malformed = true;
    }
    if (core::nests_too_deep(text, deepest_row)) {
      row.problem = "is nested too deep";
      return;
    }
    const json object = read_json_value(text, row.problem);
    if (object.is_discarded()) return;
    const std::vector<std::string>& names = items_.columns();
    const bool is_list = object.is_array() && !names.empty();
    if (is_list && object.size() != names.size()) {
      row.problem =
          "is a list of " + std::to_string(object.size()) + ", and \"columns\" of " + std::to_string(names.size());
      return;
    }
    if (!object.is_object() && !is_list) {
      row.problem = std::string("is not a JSON object") + (object.is_array() ? " but a list" + pandas_advice : "");
      return;
    }
    bool lacks = false;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const json* const cell = is_list ? cell_of(object, names, columns_[i]) : member_of(object, columns_[i]);
      if (cell == nullptr) {
        lacks = true;
      } else if (read_value(*cell, i, row)) {
        row.values[i] = storage_[i];
      }
    }
    if (!lacks) return;
    if (is_list) {
      row.keys = names;
      return;
    }
    const bool is_table =
        std::all_of(object.begin(), object.end(), [](const json& value) { return value.is_object(); });
    if (is_table && !object.empty()) row.problem = "is an object of objects" + pandas_advice;
    for (const auto& [key, value] : object.items()) row.keys.push_back(key);
  }

  static const json* member_of(const json& object, const std::string& column) {
    const auto found = object.find(column);
    return found == object.end() ? nullptr : &*found;
  }

  static const json* cell_of(const json& list, const std::vector<std::string>& names, const std::string& column) {
    const auto index = static_cast<std::size_t>(std::find(names.begin(), names.end(), column) - names.begin());
    return index == names.size() ? nullptr : &list[index];
  }

  /// Puts a column's text into storage_; false, with a problem, if it has none.
  bool read_value(const json& value, std::size_t column, Row& row) {
    std::string& text = storage_[column];
    ListColumn* const list = lists_[column].get();
    if (value.is_null()) {
      text.clear();
    } else if (value.is_string()) {
      text = value.get_ref<const std::string&>();
      std::string_view cell = text;
      if (list == nullptr) return true;
      std::string joined, problem = list->read_cell(cell, joined);
      if (!problem.empty()) row.problem = std::move(problem);
      if (cell.data() != text.data()) text = std::move(joined);
    } else if (value.is_primitive()) {
      text = value.dump();
    } else if (list != nullptr && is_list(value)) {
      if (std::string problem = join(value, *list, text); !problem.empty()) row.problem = std::move(problem);
    } else {
      row.problem = "has an " + std::string(value.type_name()) + " in \"" + columns_[column] + "\", not a text";
      if (value.is_object() && items_.number() == 1) {
        row.problem += pandas_advice;
      }
      return false;
    }
    return true;
  }

  static bool is_list(const json& value) {
    return value.is_array() && std::all_of(value.begin(), value.end(), [](const json& entry) {
             return entry.is_string() || entry.is_number() || entry.is_boolean();
           });
  }

  /// The entries of an array as one text.
  std::string join(const json& array, const ListColumn& list, std::string& text) {
    entries_.clear();
    for (const json& entry : array) {
      if (entry.is_string()) {
        entries_.push_back({entry.get_ref<const std::string&>()});
      } else if (entry.is_boolean()) {
        entries_.push_back({entry.get<bool>() ? "1" : "0", ListEntry::Kind::truth});
      } else {
        entries_.push_back(number_entry(core::json_text(entry)));
      }
    }
    return list.join(entries_, text);
  }

  JsonItems items_;
  RowFormat format_;
  std::vector<std::string> columns_, storage_;
  std::vector<std::unique_ptr<ListColumn>> lists_;  // by column; null if it has none
  std::vector<ListEntry> entries_;
  std::string valid_;
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  return std::make_unique<JsonRows>(file, format, columns);
}

}  // namespace

const TextFormat& jsonl_format() {
  static const TextFormat format{.name = "jsonl", .title = "JSON", .open = open};
  return format;
}

}  // namespace bert_hpc::prep
