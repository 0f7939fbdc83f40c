#include "list_cells.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::prep {
namespace {

using Kind = ListEntry::Kind;

constexpr std::string_view blanks = " \t\r\n";

void append_character(char32_t point, std::string& text) {
  char bytes[4];
  const bool is_half = point >= 0xD800 && point < 0xE000;  // of a surrogate pair
  const char* const end = tokenize::encode_utf8(is_half ? tokenize::replacement_character : point, bytes);
  text.append(bytes, static_cast<std::size_t>(end - bytes));
}

/// Reads the entries of a list from its inside.
class EntryReader {
 public:
  EntryReader(std::string_view text, std::vector<ListEntry>& entries) : text_(text), entries_(entries) {}

  /// False if something is no entry.
  bool read() {
    entries_.clear();
    for (;;) {
      skip_blanks();
      if (text_.empty()) return true;
      if (!read_entry()) return false;
      skip_blanks();
      if (text_.starts_with(',')) text_.remove_prefix(1);
    }
  }

 private:
  void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(blanks), text_.size())); }

  bool read_entry() {
    const bool is_call = text_.starts_with("np.") || text_.starts_with("numpy.");  // np.str_('a'), np.int64(27)
    if (is_call) {
      const std::size_t open = text_.find('(');
      if (open == std::string_view::npos) return false;
      text_.remove_prefix(open + 1);
    }
    if (text_.size() > 1 && std::string_view("bur").find(text_[0]) != std::string_view::npos && is_quote(text_[1])) {
      text_.remove_prefix(1);
    }
    if (text_.empty() || !(is_quote(text_[0]) ? read_text() : read_word())) return false;
    if (!is_call) return true;
    if (!text_.starts_with(')')) return false;
    text_.remove_prefix(1);
    return true;
  }

  static bool is_quote(char c) { return c == '"' || c == '\''; }

  bool read_text() {
    const char quote = text_.front();
    text_.remove_prefix(1);
    ListEntry entry;
    for (;;) {
      const std::size_t plain = std::min(text_.find_first_of(quote == '"' ? "\"\\" : "'\\"), text_.size());
      entry.text += text_.substr(0, plain);
      text_.remove_prefix(plain);
      if (text_.empty()) return false;
      const bool ends = text_.front() == quote;
      text_.remove_prefix(1);
      if (ends) break;
      if (!read_escape(entry.text)) return false;
    }
    entries_.push_back(std::move(entry));
    return true;
  }

  /// Reads the rest of an escape after its backslash, by the rules that JSON and Python share.
  bool read_escape(std::string& out) {
    if (text_.empty()) return false;
    const char c = text_.front();
    text_.remove_prefix(1);
    constexpr std::string_view letters = "ntrbf\\/'\"", values = "\n\t\r\b\f\\/'\"";
    if (const std::size_t index = letters.find(c); index != std::string_view::npos) {
      out += values[index];
      return true;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {  // no escape in Python: the backslash stays
      out += '\\';
      out += c;
      return true;
    }
    auto point = hexadecimal(digits);
    if (!point) return false;
    if (*point >= 0xD800 && *point < 0xDC00 && text_.starts_with("\\u")) {
      const std::string_view before = text_;
      text_.remove_prefix(2);
      const auto low = hexadecimal(4);
      if (low && *low >= 0xDC00 && *low < 0xE000) {
        point = 0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
      } else {
        text_ = before;
      }
    }
    append_character(*point, out);
    return true;
  }

  std::optional<char32_t> hexadecimal(std::size_t digits) {
    std::uint32_t value = 0;
    if (text_.size() < digits) return std::nullopt;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + digits, value, 16);
    if (error != std::errc{} || end != text_.data() + digits || value > 0x10FFFF) return std::nullopt;
    text_.remove_prefix(digits);
    return value;
  }

  /// A number or a truth value.
  bool read_word() {
    const std::size_t size = std::min(text_.find_first_of(" \t\r\n,)"), text_.size());
    const std::string_view word = text_.substr(0, size);
    text_.remove_prefix(size);
    if (word == "True" || word == "true" || word == "False" || word == "false") {
      entries_.push_back({word[0] == 'T' || word[0] == 't' ? "1" : "0", Kind::truth});
      return true;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(value)) return false;
    entries_.push_back(number_entry(word));
    return true;
  }

  std::string_view text_;
  std::vector<ListEntry>& entries_;
};

/// "[" and "]", or the brackets of a tuple or a set.
bool has_brackets(std::string_view cell) {
  if (cell.size() < 2) return false;
  const char open = cell.front(), close = cell.back();
  return (open == '[' && close == ']') || (open == '(' && close == ')') || (open == '{' && close == '}');
}

/// The list in a call that prints it, as "array(['a'], dtype=object)"; "[]" for "set()"; else the cell itself.
std::string_view unwrapped(std::string_view cell) {
  constexpr std::string_view calls[] = {"array", "tensor", "set", "frozenset", "Index", "list", "tuple"};
  const std::size_t open = cell.find('(');
  if (!cell.ends_with(')') || open == std::string_view::npos) return cell;
  const std::string_view name = cell.substr(0, open).substr(cell.substr(0, open).rfind('.') + 1);
  if (std::find(std::begin(calls), std::end(calls), name) == std::end(calls)) return cell;
  const std::string_view inside = core::trimmed(cell.substr(open + 1, cell.size() - open - 2));
  if (inside.empty()) return "[]";
  constexpr std::string_view opening = "[({", closing = "])}";
  const std::size_t kind = opening.find(inside.front());
  const std::size_t end = kind == opening.npos ? std::string_view::npos : inside.rfind(closing[kind]);
  if (end == std::string_view::npos) return cell;
  const std::string_view rest = core::trimmed(inside.substr(end + 1));
  return rest.empty() || rest.starts_with(',') ? inside.substr(0, end + 1) : cell;
}

bool holds_quote(std::string_view cell) {
  return cell.find_first_of("\"'") != std::string_view::npos;
}

/// Whether a cell in brackets is a list that was printed, and not words between blanks.
bool is_printed(std::string_view cell) {
  const bool has_commas = cell.find("',") != std::string_view::npos || cell.find("\",") != std::string_view::npos;
  return cell[1] != ' ' || has_commas || !holds_quote(cell);
}

/// Whether a list has a number of 0 or 1 for each label. Such a vector has three numbers at least, as two different
/// labels may be 0 and 1, or is not of whole numbers.
bool is_vector(const std::vector<ListEntry>& entries) {
  const bool is_binary = !entries.empty() && std::all_of(entries.begin(), entries.end(), [](const ListEntry& entry) {
    return entry.kind != Kind::text && (entry.text == "0" || entry.text == "1");
  });
  return is_binary && (entries.size() > 2 || std::any_of(entries.begin(), entries.end(), [](const ListEntry& entry) {
                         return entry.kind != Kind::whole;
                       }));
}

/// Names for a vector: the numbers of the labels with 1.
void name_vector(std::vector<ListEntry>& entries) {
  std::vector<ListEntry> named;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].text == "1") named.push_back({std::to_string(i), Kind::whole});
  }
  entries = std::move(named);
}

}  // namespace

ListEntry number_entry(std::string_view number) {
  double value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  constexpr double most = 1e15;
  const bool is_real = number.find_first_of(".eE") != std::string_view::npos;
  if (is_real && value == std::floor(value) && std::abs(value) < most) {
    return {std::to_string(static_cast<std::int64_t>(value)), Kind::real};
  }
  return {std::string(number), is_real ? Kind::real : Kind::whole};
}

ListForm read_list(std::string_view cell, std::vector<ListEntry>& entries) {
  cell = core::trimmed(cell);
  if (!has_brackets(cell)) return ListForm::none;
  if (cell == "{}") {
    entries.clear();
    return ListForm::list;
  }
  const std::string_view inside = cell.substr(1, cell.size() - 2);
  return EntryReader(inside, entries).read() ? ListForm::list : ListForm::unreadable;
}

ListColumn::ListColumn(const RowFormat& format, std::string column)
    : format_(format), column_(std::move(column)), has_words_(format.list_ends) {}

bool ListColumn::is_in(const RowFormat& format, const std::string& column) {
  const auto& lists = format.list_columns;
  return !format.list_separator.empty() && std::find(lists.begin(), lists.end(), column) != lists.end();
}

std::string ListColumn::read_cell(std::string_view& cell, std::string& storage) {
  const std::string_view list = unwrapped(core::trimmed(cell));
  if (cell.empty() || !has_brackets(list)) return {};
  if (has_words_ && !is_printed(list)) return {};
  const ListForm form = read_list(list, entries_);
  const bool is_square = list.front() == '[', is_set = list.front() == '{';
  const auto is_text = [](const ListEntry& entry) { return entry.kind == Kind::text; };
  const bool has_texts = std::any_of(entries_.begin(), entries_.end(), is_text);
  const bool is_tuple = !has_words_ && (entries_.empty() || is_set || list.find(',') != std::string_view::npos);
  if (form == ListForm::list && (has_texts || is_square || is_tuple)) {
    const bool is_text_in_words = has_words_ && !has_texts && column_ == format_.list_columns.front();
    if (is_text_in_words && !entries_.empty()) return {};  // "[ 12 ]": words between blanks
    std::string problem = join(entries_, storage);
    if (problem.empty()) cell = storage;
    return problem;
  }
  if (form != ListForm::unreadable) return {};
  if (!holds_quote(list)) {
    if (has_words_ || (!is_square && !is_set)) return {};
    std::string problem = split_names(list, storage);
    if (problem.empty()) cell = storage;
    return problem;
  }
  if (has_words_ && !list.starts_with("['") && !list.starts_with("[\"")) return {};  // words between blanks
  const bool is_shortened = cell.find("...") != std::string_view::npos;
  return "has \"" + core::printable(cell, 60) + "\" in \"" + column_ + "\", which begins like a list" +
         (is_shortened ? " and was shortened by NumPy: convert arrays to lists before writing them"
                       : " and cannot be read as one");
}

/// Names without quotes: "[toxic, threat]", and "{toxic,threat}" of PostgreSQL.
std::string ListColumn::split_names(std::string_view cell, std::string& text) const {
  cell = cell.substr(1, cell.size() - 2);
  if (cell.find("...") != std::string_view::npos) {
    return "has \"" + core::printable(cell, 60) + "\" in \"" + column_ +
           "\", a list that was shortened by NumPy: convert arrays to lists before writing them";
  }
  for (const std::string_view mark : {"None", "nan", "NaN", "null", "NULL"}) {
    if (core::trimmed(cell) == mark) {
      return "has a list of \"" + std::string(mark) + "\", a mark of a missing value, in \"" + column_ + '"';
    }
  }
  text = cell;
  return {};
}

std::string ListColumn::join(std::vector<ListEntry>& entries, std::string& text) const {
  text.clear();
  const std::size_t labels = format_.list_labels;
  const auto is_binary = [](const ListEntry& entry) {
    return entry.kind == Kind::whole && (entry.text == "0" || entry.text == "1");
  };
  if (!has_words_ && is_vector(entries)) {
    if (labels > 0 && entries.size() != labels) {
      return "has " + core::counted(std::ssize(entries), "number") + " of 0 and 1 in the list \"" + column_ +
             "\", and [task] labels has " + core::counted(static_cast<std::int64_t>(labels), "name");
    }
    name_vector(entries);
  } else if (!has_words_ && labels == 2 && entries.size() == 2 &&
             std::all_of(entries.begin(), entries.end(), is_binary)) {
    return "has two numbers of 0 and 1 in the list \"" + column_ +
           "\", which may name two labels or have a number for each: write names, or [0.0, 1.0] for a number for each";
  }
  for (const ListEntry& entry : entries) {
    const bool is_whole = entry.text.find('.') == std::string::npos && entry.text.find('e') == std::string::npos;
    if (entry.kind == Kind::real && !is_whole) {
      return "has the number " + core::printable(entry.text, 60) + " in the list \"" + column_ +
             "\", where labels are names, whole numbers, or 0 and 1 for each label";
    }
    if (entry.text.find(format_.list_separator) != std::string::npos) {
      return "has \"" + core::printable(entry.text, 60) + "\" in the array \"" + column_ +
             "\", which holds the separator \"" + format_.list_separator + "\"" +
             (has_words_ ? "" : ": set [source] label_separator to another one");
    }
    if (!text.empty() && !has_words_) text += format_.list_separator;
    text += entry.text;
    if (has_words_) text += format_.list_separator;
  }
  return {};
}

}  // namespace bert_hpc::prep
