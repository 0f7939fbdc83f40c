// CSV and TSV by RFC 4180. A record is scanned once for the offsets of its fields without changing anything, so that a
// block which ends inside a record is simply extended and scanned again; then fields with doubled quotes are unfolded.
// A field that begins with a quote and is not well quoted is taken as it stands: a stray quote would join it with all
// rows up to the next quote.
#include "delimited_rows.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/find_either.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "column_words.hpp"
#include "delimited_advice.hpp"
#include "list_cells.hpp"

namespace bert_hpc::prep {
namespace {

using core::Error;
using core::ExitCode;

struct Field {
  std::size_t begin = 0, end = 0;
  bool unfold = false;  ///< holds quotes that are not part of the value
};

/// Kind of a field that begins with a quote. cut: the text ends first. open: no quote follows. followed: text is behind
/// the next quote. escaped: it is closed if a backslash escapes quotes.
enum class Quoted { closed, cut, open, followed, escaped };

constexpr std::string_view escaped_quote = "\\\"";

class DelimitedRows : public RowReader {
 public:
  DelimitedRows(const std::string& file, const RowFormat& format, const std::vector<std::string>& columns)
      : source_(file, format.encoding), format_(format) {
    std::vector<std::string> names;
    if (format.header) {
      if (!read_record()) throw Error(ExitCode::data, file + ": has no header row.");
      for (std::size_t i = 0; i < fields_.size(); ++i) names.emplace_back(value(i, 0));
      if (!format.extra_columns) widest_ = names.size();
    }
    std::vector<std::string> missing;
    for (const std::string& column : columns) {
      refuse_repeated(column, names);
      const std::optional<std::size_t> index = find(column, names);
      if (!index) missing.push_back(column);
      indices_.push_back(index.value_or(0));
    }
    refuse(missing, names);
    storage_.resize(std::max<std::size_t>(1, columns.size()));
    for (const std::string& column : columns) {
      const bool has_lists = ListColumn::is_in(format_, column);
      lists_.push_back(has_lists ? std::make_unique<ListColumn>(format_, column) : nullptr);
    }
  }

  bool next(Row& row) override {
    if (!read_record()) return false;
    row.number = ++number_;
    row.line = record_line_;
    row.record = record_;
    row.problem.clear();
    row.note.clear();
    row.too_wide = widest_ > 0 && fields_.size() > widest_;
    if (row.too_wide) {  // a delimiter that should have been quoted: which column is which cannot be known
      row.problem = "has " + std::to_string(fields_.size()) + " columns, the header " + std::to_string(widest_);
    }
    const bool is_odd = stray_ != Quoted::closed || row.too_wide || fields_.size() < widest_;
    if (format_.quotes && is_odd) judge_quotes(row);
    if (!format_.quotes && format_.format->takes_table_keys) find_quotes(row);
    row.values.resize(indices_.size());
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      row.values[i].reset();
      if (indices_[i] < fields_.size()) row.values[i] = value(indices_[i], i);
      if (lists_[i] && row.values[i]) read_list_cell(i, row);
    }
    return true;
  }

 private:
  static std::optional<std::size_t> find(const std::string& column, const std::vector<std::string>& names) {
    const auto named = std::find(names.begin(), names.end(), column);
    if (named != names.end()) return static_cast<std::size_t>(named - names.begin());
    const bool number = !column.empty() && column.size() < 7 &&
                        std::all_of(column.begin(), column.end(), [](char c) { return c >= '0' && c <= '9'; });
    const bool there = number && column != "0" && (names.empty() || std::stoul(column) <= names.size());
    return there ? std::optional(std::stoul(column) - 1) : std::nullopt;
  }

  /// Throws where several columns have the name `column`: which one is meant is not known.
  void refuse_repeated(const std::string& column, const std::vector<std::string>& names) const {
    std::vector<std::string> numbers;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == column) numbers.push_back(std::to_string(i + 1));
    }
    if (numbers.size() < 2) return;
    const std::size_t count = numbers.size();
    const std::string first = numbers.front();
    if (count > 5) {
      numbers.resize(5);
      numbers.push_back(std::to_string(count - 5) + " more");
    }
    const std::string times = count == 2 ? "twice" : count == 3 ? "three times" : std::to_string(count) + " times";
    throw Error(ExitCode::data, source_.file() + ": has the column \"" + core::printable(column, 60) + "\" " + times +
                                    ", as columns " + core::listed(numbers, "and", false) +
                                    ". Rename them in the header, or give the number of the right one, as in \"" +
                                    first + "\".");
  }

  /// Throws if there are any.
  void refuse(const std::vector<std::string>& missing, const std::vector<std::string>& names) const {
    if (missing.empty()) return;
    const std::string columns = columns_text(missing, names);
    if (!format_.header) {
      throw Error(ExitCode::data, source_.file() + ": " + columns +
                                      " cannot be found in a file without a header: give columns by number, from 1, "
                                      "or set [source] header = true.");
    }
    std::vector<std::string> printable;
    for (const std::string& name : names) printable.push_back(core::printable(name, 60));
    throw Error(ExitCode::data, source_.file() + ": has no " + columns + ". Its columns are " +
                                    core::listed(printable, "and") + "." + delimiter_advice(names, format_) +
                                    header_advice(names));
  }

  /// Offsets of the next record's fields, blank lines skipped; false at the end of the file.
  bool read_record() {
    std::size_t wanted = 1;
    for (;;) {
      std::string_view text = source_.peek(wanted);
      if (text.empty()) return false;
      if (text[0] == '\n' || text.starts_with("\r\n")) {
        source_.consume(text[0] == '\n' ? 1 : 2, 1);
        wanted = 1;
        continue;
      }
      if (scan(text, text.size() < wanted)) break;  // true: the file ends here, perhaps without a line feed
      wanted = std::max(text.size() + 1, std::min(2 * text.size(), longest_record));
    }
    return true;
  }

  /// Scans one record at the front of `text` and consumes it; false if `text` ends before the record does.
  bool scan(std::string_view text, bool last) {
    fields_.clear();
    stray_ = Quoted::closed;
    std::size_t at = 0;
    std::int64_t lines = 1;
    for (;;) {
      Field field{at, at, false};
      if (format_.quotes && at < text.size() && text[at] == '"' && !takes_rest()) {
        const Quoted quoted = scan_quoted(text, at, field, lines, last);
        if (quoted == Quoted::cut) return false;
        if (quoted != Quoted::closed) {
          stray_ = quoted;
          stray_field_ = fields_.size();
          if (quoted != Quoted::escaped) at = field.end = unquoted_end(text, field.begin);
        }
      } else {
        at = unquoted_end(text, at);
        field.end = at;
      }
      const bool ended = at >= text.size();
      if (ended && !last) return false;
      if (!ended && text[at] == format_.delimiter && !takes_rest()) {
        fields_.push_back(field);
        ++at;
        continue;
      }
      if (!field.unfold && field.end > field.begin && text[field.end - 1] == '\r') --field.end;
      fields_.push_back(field);
      record_ = text.substr(0, at);
      record_line_ = source_.line();
      source_.consume(ended ? at : at + 1, lines);
      return true;
    }
  }

  bool takes_rest() const {
    return format_.column_limit > 0 && static_cast<int>(fields_.size()) + 1 >= format_.column_limit;
  }

  std::size_t unquoted_end(std::string_view text, std::size_t at) const {
    const char delimiter = takes_rest() ? '\n' : format_.delimiter;
    return core::find_either(text, at, delimiter, '\n');
  }

  /// From an opening quote to the field's end. Blanks behind the closing quote belong to the field, as in Python; any
  /// other text means that one of the quotes is an ordinary character. Unless the field is closed, `at` and the counts
  /// are as before.
  Quoted scan_quoted(std::string_view text, std::size_t& at, Field& field, std::int64_t& lines, bool last) const {
    std::size_t end = at + 1;
    std::int64_t lines_within = 0;
    for (;;) {
      const std::size_t quote = text.find('"', end);
      if (quote == std::string_view::npos) {
        if (!last && text.size() < longest_record) return Quoted::cut;
        return scan_escaped(text, at, text.size(), field, lines, last, Quoted::open);
      }
      lines_within += std::count(text.begin() + static_cast<std::ptrdiff_t>(end),
                                 text.begin() + static_cast<std::ptrdiff_t>(quote), '\n');
      end = quote + 1;
      if (end == text.size() && !last) return Quoted::cut;  // a second quote may follow
      if (end < text.size() && text[end] == '"') {
        ++end;
        continue;
      }
      break;
    }
    const std::size_t behind = end;
    end = unquoted_end(text, end);
    if (end == text.size() && !last) return Quoted::cut;
    if (!is_blank(text.substr(behind, end - behind))) {
      return scan_escaped(text, at, behind, field, lines, last, Quoted::followed);
    }
    at = field.end = end;
    field.unfold = true;
    lines += lines_within;
    return Quoted::closed;
  }

  /// The same if a backslash keeps a quote from closing, which is none of CSV's rules, but makes one row of the field;
  /// `otherwise` if there is none before `limit`, or the field is not closed then either.
  Quoted scan_escaped(std::string_view text, std::size_t& at, std::size_t limit, Field& field, std::int64_t& lines,
                      bool last, Quoted otherwise) const {
    if (text.substr(at, limit - at).find(escaped_quote) == std::string_view::npos) return otherwise;
    std::size_t end = text.find_first_of("\"\\", at + 1);
    while (end != std::string_view::npos && text[end] == '\\') end = text.find_first_of("\"\\", end + 2);
    if (end == std::string_view::npos) return last || text.size() >= longest_record ? otherwise : Quoted::cut;
    const std::size_t behind = end + 1;
    end = unquoted_end(text, behind);
    if (end == text.size() && !last) return Quoted::cut;
    if (!is_blank(text.substr(behind, end - behind))) return otherwise;
    lines += std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(end),
                        '\n');
    at = field.end = end;
    return Quoted::escaped;
  }

  /// Finds faults in the quotes and backslashes of the record at hand, and notes how it is read.
  void judge_quotes(Row& row) const {
    const auto reject = [&row](const std::string& problem) {
      row.problem += (row.problem.empty() ? "" : "; it ") + problem;
    };
    const std::string remedy =
        "; write the file again, with pandas: read_csv(FILE, escapechar=\"\\\\\").to_csv(NEW, index=False)";
    const std::string escaped_delimiter = {'\\', format_.delimiter};
    const std::string column = "has a quote at the beginning of column " + std::to_string(stray_field_ + 1);
    const bool is_short = fields_.size() < widest_;
    if ((stray_ != Quoted::closed || row.too_wide) && holds(escaped_quote)) {
      reject("has \\\", which is no escape in CSV, where a quote in quotes is doubled (\"\")" + remedy);
    } else if (stray_ == Quoted::open) {
      reject(column +
             " that is never closed; if quotes are ordinary characters in this file, set [source] quotes = "
             "false");
    } else if (stray_ == Quoted::followed) {
      const std::string words =
          column + ", and text behind the next one: quotes in this column are read as ordinary characters";
      row.too_wide ? reject(words) : void(row.note = words);
    } else if ((row.too_wide || is_short) && (holds(escaped_delimiter) || record_.ends_with('\\'))) {
      reject("has a backslash before a delimiter or the line's end, which is no escape in CSV" + remedy);
    } else if (row.too_wide && holds(std::string{format_.delimiter, ' ', '"'})) {
      reject("has a blank between a delimiter and a quote, which then does not begin a quoted column");
    }
  }

  /// Finds columns that seem to be quoted though quotes are ordinary characters here.
  void find_quotes(Row& row) const {
    for (const std::size_t index : indices_) {
      if (index >= fields_.size() || !is_enclosed(field_text(index))) continue;
      row.note = "has quotes around column " + std::to_string(index + 1) + " and doubled ones in it" + quotes_advice;
    }
    if (fields_.size() >= widest_ || !row.problem.empty()) return;
    const std::string_view last = field_text(fields_.size() - 1);
    if (last.starts_with('"') && std::count(last.begin(), last.end(), '"') % 2 == 1) {
      row.problem = std::string("ends within a column that begins with a quote") + quotes_advice;
    }
  }

  std::string_view field_text(std::size_t index) const {
    return record_.substr(fields_[index].begin, fields_[index].end - fields_[index].begin);
  }

  bool holds(std::string_view text) const { return record_.find(text) != std::string_view::npos; }

  void read_list_cell(std::size_t i, Row& row) {
    std::string_view cell = *row.values[i];
    std::string problem = lists_[i]->read_cell(cell, joined_);
    if (!problem.empty()) row.problem = std::move(problem);
    if (cell.data() == row.values[i]->data()) return;
    storage_[i].swap(joined_);
    row.values[i] = storage_[i];
  }

  /// The value of field `index`, unfolded into storage_[slot] if it is quoted.
  std::string_view value(std::size_t index, std::size_t slot) {
    const Field& field = fields_[index];
    std::string_view text = field_text(index);
    if (slot >= storage_.size()) storage_.resize(slot + 1);
    std::string& storage = storage_[slot];
    if (field.unfold) {
      unfold(text);
      storage = unfolded_;
      text = storage;
    }
    return text;
  }

  void unfold(std::string_view text) {
    unfolded_.clear();
    bool open = true;
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (!open) {
        if (i + 1 == text.size() && text[i] == '\r') break;  // of the line's end
        unfolded_ += text[i];
      } else if (text[i] != '"') {
        unfolded_ += text[i];
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        unfolded_ += text[i++];
      } else {
        open = false;
      }
    }
  }

  LineSource source_;
  RowFormat format_;
  std::vector<std::size_t> indices_;  // of the columns asked for
  std::size_t widest_ = 0;            // columns of the header; 0: rows may have any number
  std::vector<Field> fields_;         // of the record
  std::string_view record_;
  std::int64_t record_line_ = 0, number_ = 0;
  Quoted stray_ = Quoted::closed;  // the record's last field that begins with a quote and is not well quoted
  std::size_t stray_field_ = 0;    // and its index
  std::vector<std::string> storage_;
  std::vector<std::unique_ptr<ListColumn>> lists_;  // by column asked for; null if it has none
  std::string unfolded_, joined_;
};

}  // namespace

std::unique_ptr<RowReader> open_delimited_rows(const std::string& file, const RowFormat& format,
                                               const std::vector<std::string>& columns) {
  return std::make_unique<DelimitedRows>(file, format, columns);
}

const TextFormat& csv_format() {
  static const TextFormat format{.name = "csv",
                                 .title = "CSV",
                                 .takes_table_keys = true,
                                 .delimiter = ',',
                                 .quotes = true,
                                 .open = open_delimited_rows};
  return format;
}

const TextFormat& tsv_format() {
  static const TextFormat format{.name = "tsv",
                                 .title = "TSV",
                                 .takes_table_keys = true,
                                 .delimiter = '\t',
                                 .quotes = false,
                                 .open = open_delimited_rows};
  return format;
}

}  // namespace bert_hpc::prep
