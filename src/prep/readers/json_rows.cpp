// JSON Lines: an object a line. A line that cannot be read is a row with a problem, and the next is read.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_depth.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::prep {
namespace {

constexpr int deepest_row = 100;  // the JSON parser takes many times a deep row's bytes

class JsonRows : public RowReader {
 public:
  JsonRows(const std::string& file, const RowFormat& format, const std::vector<std::string>& columns)
      : source_(file), format_(format), columns_(columns), storage_(columns.size()) {}

  bool next(Row& row) override {
    std::string_view line;
    if (!source_.next_filled_line(line, row.line)) return false;
    row.number = ++number_;
    row.problem.clear();
    row.values.assign(columns_.size(), std::nullopt);
    row.keys.clear();
    row.malformed = false;
    read_object(line, row);
    return true;
  }

 private:
  void read_object(std::string_view line, Row& row) {
    if (format_.encoding == TextEncoding::latin1) {
      tokenize::latin1_to_utf8(line, converted_);
    } else {
      converted_ = tokenize::valid_utf8(line);  // the parser takes nothing else
      row.malformed = converted_ != line;
    }
    if (core::nests_too_deep(converted_, deepest_row)) {
      row.problem = "is nested too deep";
      return;
    }
    const nlohmann::json object = core::parse_json(converted_);
    if (object.is_discarded() || !object.is_object()) {
      row.problem = "is not a JSON object";
      return;
    }
    bool lacks = false;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto found = object.find(columns_[i]);
      if (found == object.end()) {
        lacks = true;
        continue;
      }
      if (found->is_null()) {
        storage_[i].clear();
      } else if (found->is_string()) {
        storage_[i] = found->get<std::string>();
      } else if (found->is_primitive()) {
        storage_[i] = found->dump();
      } else if (is_list(columns_[i], *found)) {
        join(*found, i, row);
      } else {
        row.problem = "has an " + std::string(found->type_name()) + " in \"" + columns_[i] + "\", not a text";
        continue;
      }
      row.values[i] = storage_[i];
    }
    if (!lacks) return;
    for (const auto& [key, value] : object.items()) row.keys.push_back(key);
  }

  bool is_list(const std::string& column, const nlohmann::json& value) const {
    const auto& lists = format_.list_columns;
    return std::find(lists.begin(), lists.end(), column) != lists.end() && !format_.list_separator.empty() &&
           value.is_array() && std::all_of(value.begin(), value.end(), [this](const nlohmann::json& entry) {
             return entry.is_string() || (format_.list_ends && entry.is_number_integer());
           });
  }

  /// The strings and numbers of a list as one text.
  void join(const nlohmann::json& list, std::size_t column, Row& row) {
    std::string& text = storage_[column];
    text.clear();
    for (const nlohmann::json& entry : list) {
      const std::string name = entry.is_string() ? entry.get<std::string>() : core::json_text(entry);
      if (name.find(format_.list_separator) != std::string::npos) {
        row.problem = "has \"" + core::printable(name, 60) + "\" in the array \"" + columns_[column] +
                      "\", which holds the separator \"" + format_.list_separator + "\"" +
                      (format_.list_ends ? "" : ": set [source] label_separator to another one");
        return;
      }
      if (!text.empty() && !format_.list_ends) text += format_.list_separator;
      text += name;
      if (format_.list_ends) text += format_.list_separator;
    }
  }

  LineSource source_;
  RowFormat format_;
  std::vector<std::string> columns_, storage_;
  std::string converted_;
  std::int64_t number_ = 0;
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  return std::make_unique<JsonRows>(file, format, columns);
}

}  // namespace

const TextFormat& jsonl_format() {
  static const TextFormat format{.name = "jsonl", .title = "JSON Lines", .open = open};
  return format;
}

}  // namespace bert_hpc::prep
