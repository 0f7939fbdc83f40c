#include "row_labels.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/answer_rows.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "label_rules.hpp"
#include "readers/qrels.hpp"

namespace bert_hpc::prep {

using tasks::Labels;

namespace {

constexpr std::size_t max_labels = 100000;  // more is a column of something else
constexpr std::size_t max_unlisted = 1000;  // kept, for messages
constexpr std::int64_t max_bins = 10, least_rows_of_bin = 20;

/// A finite number and nothing else, in C's notation.
bool parse_number(std::string_view text, float& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  value = static_cast<float>(number);
  return std::isfinite(value);
}

/// The same with a comma before the fraction, where C has a point.
bool parse_number_with_comma(std::string_view text, float& value) {
  if (text.find('.') != std::string_view::npos) return false;
  std::string number(text);
  std::replace(number.begin(), number.end(), ',', '.');
  return parse_number(number, value);
}

/// The names of a set, without blanks around them and without empty ones. An empty separator: one name.
std::vector<std::string_view> names_in(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> names;
  while (!text.empty()) {
    const std::size_t end = separator.empty() ? std::string_view::npos : text.find(separator);
    const std::string_view name = core::trimmed(text.substr(0, end));
    if (!name.empty()) names.push_back(name);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + separator.size());
  }
  return names;
}

/// Whether `tag` is the number of a name and no name itself, as in data sets of Transformers.
bool is_number_of(std::string_view tag, const std::vector<std::string>& names, std::int32_t& number) {
  const auto [end, error] = std::from_chars(tag.data(), tag.data() + tag.size(), number);
  return error == std::errc{} && end == tag.data() + tag.size() && number >= 0 && number < std::ssize(names) &&
         std::find(names.begin(), names.end(), tag) == names.end();
}

std::span<const std::int32_t> set_of(const RowTable& table, std::size_t row) {
  const auto begin = static_cast<std::size_t>(table.set_begins[row]);
  return std::span(table.set_names).subspan(begin, static_cast<std::size_t>(table.set_begins[row + 1]) - begin);
}

/// One number, or one for each label column.
std::span<const float> values_of(const RowTable& table, std::size_t row) {
  const std::size_t columns = std::max<std::size_t>(1, table.label_names.size());
  return std::span(table.values).subspan(row * columns, columns);
}

/// The cells of several label columns; one without any.
std::vector<std::string_view> cells_in(std::string_view text) {
  std::vector<std::string_view> cells;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find(value_end);
    cells.push_back(text.substr(0, end));
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  return cells;
}

/// A number of a label column. One of several columns may be empty, so that its number is unknown (NaN).
bool read_number(std::string_view cell, const PrepConfig& config, float& value) {
  value = std::numeric_limits<float>::quiet_NaN();
  if (cell.empty() && config.has_value_columns()) return true;
  return config.source.decimal == "," ? parse_number_with_comma(cell, value) : parse_number(cell, value);
}

}  // namespace

bool has_decimal_comma(std::string_view text) {
  float value = 0;
  return text.find(',') != std::string_view::npos && parse_number_with_comma(text, value);
}

LabelReader::LabelReader(const PrepConfig& config, RowTable& table)
    : config_(config), table_(table), kind_(config.labels()) {
  for (const std::string& name : config.task.labels) add(name);
  if (config.has_value_columns()) {
    for (const std::string& name : config.source.label_columns) add(name);
  }
  if (kind_ == Labels::values || kind_ == Labels::scores) {
    values_.resize(std::max<std::size_t>(1, table.label_names.size()));
  }
  if (kind_ == Labels::sets || kind_ == Labels::words) table.set_begins = {0};
}

RowStatus LabelReader::read(std::string_view text) {
  switch (kind_) {
    case Labels::classes:
      return read_class(text);
    case Labels::values:
    case Labels::scores:
      return read_values(text);
    case Labels::sets:
      return read_set(text);
    case Labels::spans:
      answer_ = first_answer(text);
      return RowStatus::train;
    case Labels::words:
      return read_words(text);
    case Labels::levels:
      return parse_level(text, class_) ? RowStatus::train : RowStatus::no_number;
    case Labels::none:
      break;
  }
  return RowStatus::train;
}

RowStatus LabelReader::read_values(std::string_view text) {
  const std::vector<std::string_view> cells = cells_in(text);
  bool are_numbers = cells.size() == values_.size();  // a cell may hold the character between cells
  for (std::size_t i = 0; are_numbers && i < cells.size(); ++i) {
    are_numbers = read_number(cells[i], config_, values_[i]);
  }
  if (!are_numbers) return RowStatus::no_number;
  for (std::size_t i = 0; i < table_.label_rows.size(); ++i) table_.label_rows[i] += !std::isnan(values_[i]);
  return RowStatus::train;
}

RowStatus LabelReader::read_class(std::string_view text) {
  if (!find_or_add(text, class_)) return RowStatus::unlisted_label;
  ++table_.label_rows[static_cast<std::size_t>(class_)];
  return RowStatus::train;
}

RowStatus LabelReader::read_set(std::string_view text) {
  bool all_listed = true;
  for (const std::string_view name : names_in(text, config_.source.label_separator)) {
    std::int32_t number = 0;
    if (!is_number_of(name, config_.task.labels, number) && !find_or_add(name, number)) {
      all_listed = false;
    } else if (std::find(set_.begin(), set_.end(), number) != set_.end()) {
      set_.clear();
      return RowStatus::repeated_label;
    } else {
      set_.push_back(number);
    }
  }
  if (!all_listed) {
    set_.clear();
    return RowStatus::unlisted_label;
  }
  for (const std::int32_t number : set_) ++table_.label_rows[static_cast<std::size_t>(number)];
  return RowStatus::train;
}

/// A class for each word, in set_.
RowStatus LabelReader::read_words(std::string_view text) {
  for (const std::string_view tag : words_in(text)) {
    std::int32_t number = 0;
    if (!is_number_of(tag, config_.task.labels, number) && !find_or_add(tag, number)) {
      set_.clear();
      return RowStatus::unlisted_label;
    }
    set_.push_back(number);
  }
  for (const std::int32_t number : set_) ++table_.label_rows[static_cast<std::size_t>(number)];
  return RowStatus::train;
}

void LabelReader::end_row() {
  switch (kind_) {
    case Labels::classes:
      table_.classes.push_back(class_);
      break;
    case Labels::values:
    case Labels::scores:
      table_.values.insert(table_.values.end(), values_.begin(), values_.end());
      break;
    case Labels::sets:
    case Labels::words:
      table_.set_names.insert(table_.set_names.end(), set_.begin(), set_.end());
      table_.set_begins.push_back(std::ssize(table_.set_names));
      break;
    case Labels::spans:
      table_.answers.push_back(answer_);
      break;
    case Labels::levels:
      table_.levels.push_back(class_);
      break;
    case Labels::none:
      break;
  }
  class_ = 0;
  std::fill(values_.begin(), values_.end(), 0.0f);
  set_.clear();
  answer_ = no_answer;
}

/// False, and counted, where [task] labels has no such name.
bool LabelReader::find_or_add(std::string_view text, std::int32_t& number) {
  const std::string name = tokenize::valid_utf8(text);
  const auto found = numbers_.find(name);
  if (found == numbers_.end() && !config_.task.labels.empty()) {
    auto& rows = table_.unlisted_labels;
    if (rows.size() < max_unlisted || rows.contains(name)) ++rows[name];
    return false;
  }
  number = found != numbers_.end() ? found->second : add(name);
  return true;
}

std::int32_t LabelReader::add(const std::string& name) {
  if (numbers_.size() == max_labels) {
    throw core::Error(core::ExitCode::data,
                      "The label column \"" + config_.source.label +
                          "\" has more than 100,000 different "
                          "labels; for numbers set [task] name = \"regression\", else check [source] label.");
  }
  const auto [entry, added] = numbers_.try_emplace(name, static_cast<std::int32_t>(numbers_.size()));
  if (added) {
    table_.label_names.push_back(name);
    table_.label_rows.push_back(0);
  }
  return entry->second;
}

data::Label label_of(const RowTable& table, std::int64_t row) {
  const auto index = static_cast<std::size_t>(row);
  data::Label label;
  if (!table.classes.empty()) label.number = table.classes[index];
  if (!table.values.empty()) label.values = values_of(table, index);
  if (!table.levels.empty()) label.number = table.levels[index];
  if (!table.set_begins.empty()) label.names = set_of(table, index);
  return label;
}

void uncount_label(RowTable& table, std::int64_t row) {
  const auto index = static_cast<std::size_t>(row);
  if (!table.values.empty()) {
    const std::span<const float> values = values_of(table, index);
    for (std::size_t i = 0; i < table.label_rows.size(); ++i) table.label_rows[i] -= !std::isnan(values[i]);
  }
  if (!table.classes.empty()) --table.label_rows[static_cast<std::size_t>(table.classes[index])];
  if (table.set_begins.empty()) return;
  for (const std::int32_t name : set_of(table, index)) --table.label_rows[static_cast<std::size_t>(name)];
}

namespace {

void renumber_classes(RowTable& table, const std::vector<std::int32_t>& number, const std::vector<bool>& kept) {
  for (std::size_t i = 0; i < table.classes.size(); ++i) {
    if (!is_kept(table.status[i])) continue;
    const auto old = static_cast<std::size_t>(table.classes[i]);
    if (!kept[old]) table.status[i] = RowStatus::rare_label;
    table.classes.set(i, number[old]);
  }
}

void renumber_sets(RowTable& table, const std::vector<std::int32_t>& number, const std::vector<bool>& kept) {
  std::vector<std::int64_t> begins = {0};
  std::vector<std::int32_t> names;
  for (std::size_t row = 0; row + 1 < table.set_begins.size(); ++row) {
    for (const std::int32_t old : set_of(table, row)) {
      if (kept[static_cast<std::size_t>(old)]) names.push_back(number[static_cast<std::size_t>(old)]);
    }
    begins.push_back(std::ssize(names));
  }
  table.set_begins = std::move(begins);
  table.set_names = std::move(names);
}

/// Rows whose labels are near each other: equally many of each bin, ascending.
std::vector<std::vector<RowNumber>> bins_of_values(std::vector<RowNumber> rows, const RowTable& table) {
  const auto count = std::clamp<std::int64_t>(std::ssize(rows) / least_rows_of_bin, 1, max_bins);
  std::stable_sort(rows.begin(), rows.end(),
                   [&](RowNumber a, RowNumber b) { return table.values[a] < table.values[b]; });
  std::vector<std::vector<RowNumber>> bins(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    bins[i * static_cast<std::size_t>(count) / rows.size()].push_back(rows[i]);
  }
  for (auto& bin : bins) std::sort(bin.begin(), bin.end());
  return bins;
}

}  // namespace

void renumber_labels(RowTable& table, const std::vector<std::int32_t>& number, const std::vector<bool>& kept) {
  renumber_classes(table, number, kept);
  if (!table.set_begins.empty()) renumber_sets(table, number, kept);
}

std::vector<std::vector<RowNumber>> strata_of(std::vector<RowNumber> rows, const RowTable& table,
                                              const PrepConfig& config) {
  if (config.kind().labels == Labels::values) return bins_of_values(std::move(rows), table);
  std::vector<std::vector<RowNumber>> all(table.label_names.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i].reserve(static_cast<std::size_t>(table.label_rows[i]));
  for (const RowNumber row : rows) all[static_cast<std::size_t>(table.classes[row])].push_back(row);
  return all;
}

std::string rejected_label(RowStatus status, std::string_view label, const PrepConfig& config) {
  const bool of_words = config.has_words();
  if (config.has_value_columns()) {
    const std::vector<std::string_view> cells = cells_in(label);
    float value = 0;
    for (std::size_t i = 0; i < std::min(cells.size(), config.source.label_columns.size()); ++i) {
      if (!read_number(cells[i], config, value)) return std::string(cells[i]);
    }
  }
  if (!of_words && !label_rules(config.kind().labels).separates_names) return std::string(label);
  const std::vector<std::string_view> names =
      of_words ? words_in(label) : names_in(label, config.source.label_separator);
  for (auto name = names.begin(); name != names.end(); ++name) {
    const auto& listed = config.task.labels;
    std::int32_t number = 0;
    const bool is_listed = is_number_of(*name, listed, number);
    const bool rejects =
        status == RowStatus::repeated_label
            ? std::find(names.begin(), name, *name) != name
            : !is_listed && std::find(listed.begin(), listed.end(), tokenize::valid_utf8(*name)) == listed.end();
    if (rejects) return std::string(*name);
  }
  return std::string(label);
}

}  // namespace bert_hpc::prep
