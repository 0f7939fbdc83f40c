// Rows of all files: opens the next file when one ends, joins text columns, trims labels.
#include "bert_hpc/prep/row_stream.hpp"

#include <charconv>
#include <optional>
#include <utility>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "bert_hpc/tokenize/characters.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "label_rules.hpp"

namespace bert_hpc::prep {
namespace {

/// Whether a cell of a label's column says yes: 1 or 0, also as a real number or in words, as tables have them.
std::optional<bool> truth_of(std::string_view cell) {
  if (cell.size() == 1) return cell == "1" ? std::optional(true) : cell == "0" ? std::optional(false) : std::nullopt;
  for (const char* word : {"true", "True", "TRUE"}) {
    if (cell == word) return true;
  }
  for (const char* word : {"false", "False", "FALSE"}) {
    if (cell == word) return false;
  }
  double number = -1;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (error != std::errc{} || end != cell.data() + cell.size() || (number != 0 && number != 1)) return std::nullopt;
  return number == 1;
}

/// Whether no character of the text is a token or part of one. U+200B and NUL are as invisible as a blank.
bool is_invisible(std::string_view text) {
  constexpr std::uint8_t invisible = tokenize::character_flag::space | tokenize::character_flag::removed;
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    const char32_t point = tokenize::decode_utf8(at, end);
    const bool malformed = point == tokenize::replacement_character;  // counted as such
    if (malformed || (tokenize::character_table().flags(point) & invisible) == 0) return false;
  }
  return true;
}

/// What ends a label in its column; "": it takes the whole column.
std::string label_end(const PrepConfig& config) {
  return label_rules(config.kind().labels).separates_names ? "" : config.source.label_separator;
}

/// The part of the label column's text that is the label, without blanks around it. end: label_end().
std::string_view label_text(std::string_view column, std::string_view end) {
  return core::trimmed(end.empty() ? column : column.substr(0, column.find(end)));
}

}  // namespace

const char* to_string(Split split) {
  return split == Split::train ? "train" : split == Split::validation ? "validation" : "test";
}

RowStream::RowStream(const PrepConfig& config)
    : config_(config),
      format_(config.row_format()),
      columns_(config.source.text),
      text_columns_(config.source.text.size()),
      pair_columns_(config.source.text_pair.size()),
      negative_columns_(config.source.negatives.size()),
      label_columns_(config.columns_of_labels().size()),
      has_candidates_(config.has_candidates()),
      names_rows_(config.names_rows()),
      has_words_(config.has_words()),
      label_end_(label_end(config)),
      ids_(!config.source.id.empty()),
      queries_(!config.source.query_id.empty()),
      groups_(!config.split.group.empty()) {
  for (const std::string& path : config.source.files) files_.push_back({path, true, Split::train});
  for (const std::string& path : config.source.validation_files) files_.push_back({path, false, Split::validation});
  for (const std::string& path : config.source.test_files) files_.push_back({path, false, Split::test});
  columns_.insert(columns_.end(), config.source.text_pair.begin(), config.source.text_pair.end());
  columns_.insert(columns_.end(), config.source.negatives.begin(), config.source.negatives.end());
  const std::vector<std::string> labels = config.columns_of_labels();
  columns_.insert(columns_.end(), labels.begin(), labels.end());
  if (ids_) columns_.push_back(config.source.id);
  if (queries_) columns_.push_back(config.source.query_id);
  if (groups_) columns_.push_back(config.split.group);
  open(0);
}

void RowStream::open(std::size_t file) {
  file_ = file;
  std::vector<std::string> columns = columns_;
  if (groups_ && !files_[file].is_divided) columns.pop_back();
  reader_ = open_rows(files_[file].path, format_, columns);
}

bool RowStream::next(SourceRow& out) {
  while (!reader_->next(row_)) {
    skipped_lines_ += std::exchange(row_.skipped_lines, 0);
    if (file_ + 1 == files_.size()) return false;
    open(file_ + 1);
  }
  skipped_lines_ += row_.skipped_lines;
  out.index = index_++;
  out.number = row_.number;
  out.line = row_.line;
  out.file = file_;
  out.problem = row_.problem;
  out.too_wide = row_.too_wide;
  out.missing_column.clear();
  out.keys = row_.keys;
  out.malformed = row_.malformed;
  out.record = row_.record;
  out.text = join(0, text_columns_, out, text_);
  out.text_pair = join(text_columns_, pair_columns_, out, text_pair_);
  out.negatives = negatives(out);
  out.label = label(out);
  out.note = row_.note;
  std::size_t column = text_columns_ + pair_columns_ + negative_columns_ + label_columns_;
  const auto next_value = [&]() -> std::string_view {
    const std::size_t at = column++;
    if (row_.values[at]) return *row_.values[at];
    if (out.missing_column.empty()) out.missing_column = columns_[at];
    return {};
  };
  out.id = ids_ ? next_value() : std::string_view{};
  out.own_query = row_.own_query;
  out.query = queries_ ? core::trimmed(next_value()) : out.text;
  if (has_candidates_ || names_rows_) out.id = core::trimmed(out.id);
  out.group = {};
  if (groups_ && files_[file_].is_divided) {
    if (row_.values.back()) {
      out.group = core::trimmed(*row_.values.back());
    } else if (out.missing_column.empty()) {
      out.missing_column = columns_.back();
    }
  }
  return true;
}

std::span<const std::string_view> RowStream::negatives(SourceRow& out) {
  negatives_.clear();
  for (std::size_t i = 0; i < negative_columns_; ++i) {
    const std::string_view text = join(text_columns_ + pair_columns_ + i, 1, out, text_);
    if (!text.empty()) negatives_.push_back(text);
  }
  return negatives_;
}

/// The label's text; of a set that has a column for each name, the names whose columns hold 1, with separators between;
/// of several numbers all cells, value_end between, or nothing if all are empty.
std::string_view RowStream::label(SourceRow& out) {
  const std::size_t first = text_columns_ + pair_columns_ + negative_columns_;
  for (std::size_t i = first; i < first + label_columns_; ++i) {
    if (row_.values[i]) continue;
    if (out.missing_column.empty()) out.missing_column = columns_[i];
    return {};
  }
  if (config_.source.label_columns.empty()) {
    return label_columns_ > 0 ? label_text(*row_.values[first], label_end_) : std::string_view{};
  }
  label_.clear();
  if (config_.has_value_columns()) {
    bool any = false;
    for (std::size_t i = first; i < first + label_columns_; ++i) {
      const std::string_view cell = label_text(*row_.values[i], label_end_);
      any = any || !cell.empty();
      if (i > first) label_ += value_end;
      label_ += cell;
    }
    return any ? std::string_view(label_) : std::string_view{};
  }
  for (std::size_t i = first; i < first + label_columns_; ++i) {
    const std::string_view value = core::trimmed(*row_.values[i]);
    const std::optional<bool> truth = truth_of(value);
    if (truth == true) {
      if (!label_.empty()) label_ += config_.source.label_separator;
      label_ += columns_[i];
    } else if (!truth && out.problem.empty()) {
      out.problem = "has \"" + core::printable(value, 60) + "\" in \"" + columns_[i] +
                    "\", which must be 0 or 1 as a label column";
    }
  }
  return label_;
}

/// Columns [first, first + count) joined by blanks; empty if nothing is visible. Words without a visible character are
/// words, so that each has a prediction.
std::string_view RowStream::join(std::size_t first, std::size_t count, SourceRow& out, std::string& storage) {
  for (std::size_t i = first; i < first + count; ++i) {
    if (!row_.values[i]) {
      if (out.missing_column.empty()) out.missing_column = columns_[i];
      return {};
    }
  }
  if (count == 0) return {};
  std::string_view text = *row_.values[first];
  if (count > 1) {
    storage.clear();
    for (std::size_t i = first; i < first + count; ++i) {
      if (!storage.empty()) storage += ' ';
      storage += *row_.values[i];
    }
    text = storage;
  }
  const bool is_empty = has_words_ ? count_words(text) == 0 : is_invisible(text);
  return is_empty ? std::string_view{} : text;
}

}  // namespace bert_hpc::prep
