// Undecided and rare labels go; the other labels get their numbers.
#include "label_order.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/spelling.hpp"
#include "row_labels.hpp"

namespace bert_hpc::prep {
namespace {

/// The integer that a label spells, if it spells it as numbers are written: "7" and "-1", not "07" or "+7".
std::optional<std::int64_t> integer_of(const std::string& label) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
  if (error != std::errc{} || end != label.data() + label.size() || std::to_string(number) != label) return {};
  return number;
}

/// Puts labels in the order of their numbers, where all are integers, else of their names.
void sort_labels(std::vector<std::size_t>& labels, const std::vector<std::string>& names) {
  std::vector<std::int64_t> numbers(names.size(), 0);
  const bool integers = std::all_of(labels.begin(), labels.end(), [&](std::size_t label) {
    const auto number = integer_of(names[label]);
    numbers[label] = number.value_or(0);
    return number.has_value();
  });
  std::sort(labels.begin(), labels.end(),
            [&](std::size_t a, std::size_t b) { return integers ? numbers[a] < numbers[b] : names[a] < names[b]; });
}

void renumber(RowTable& table, const std::vector<std::size_t>& kept, const std::vector<bool>& frequent) {
  std::vector<std::int32_t> number(table.label_names.size(), 0);
  std::vector<std::string> names;
  std::vector<std::int64_t> rows;
  for (const std::size_t old : kept) {
    number[old] = static_cast<std::int32_t>(names.size());
    names.push_back(table.label_names[old]);
    rows.push_back(frequent[old] ? table.label_rows[old] : 0);
  }
  renumber_labels(table, number, frequent);
  table.label_names = std::move(names);
  table.label_rows = std::move(rows);
}

bool is_of_inference(const std::string& label) {
  constexpr std::array<std::string_view, 5> names = {"contradiction", "entailment", "neutral", "not_entailment",
                                                     "non-entailment"};
  return std::find(names.begin(), names.end(), tokenize::spelling_key(label)) != names.end();
}

}  // namespace

void reject_undecided(RowTable& table, const PrepConfig& config) {
  if (config.labels() != tasks::Labels::classes || config.filter.undecided || !config.task.labels.empty()) return;
  constexpr std::string_view undecided = "-";
  const auto& names = table.label_names;
  const auto dash = std::find(names.begin(), names.end(), undecided);
  const bool others_are = std::all_of(
      names.begin(), names.end(), [&](const std::string& name) { return name == undecided || is_of_inference(name); });
  if (dash == names.end() || names.size() < 3 || !others_are) return;
  const auto number = static_cast<std::int32_t>(dash - names.begin());
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    RowStatus& status = table.status[static_cast<std::size_t>(row)];
    if (!is_kept(status) || label_of(table, row).number != number) continue;
    uncount_label(table, row);
    status = RowStatus::undecided_label;
  }
}

void settle_labels(RowTable& table, const PrepConfig& config) {
  const auto count = table.label_names.size();
  for (std::size_t i = 0; i < config.task.labels.size(); ++i) {
    if (table.label_rows[i] == 0) table.absent_labels.push_back(table.label_names[i]);
  }
  std::vector<std::size_t> by_rows(count);
  std::iota(by_rows.begin(), by_rows.end(), std::size_t{0});
  std::sort(by_rows.begin(), by_rows.end(), [&](std::size_t a, std::size_t b) {
    const auto& rows = table.label_rows;
    return rows[a] != rows[b] ? rows[a] > rows[b] : table.label_names[a] < table.label_names[b];
  });
  std::vector<bool> frequent(count, false);
  const std::int64_t most = config.filter.most_frequent_labels;
  for (std::size_t index = 0; index < count; ++index) {
    frequent[by_rows[index]] = (most == 0 || static_cast<std::int64_t>(index) < most) &&
                               table.label_rows[by_rows[index]] >= config.filter.min_rows_per_label;
  }
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < count; ++i) {
    if (frequent[i] || !config.task.labels.empty()) kept.push_back(i);
  }
  if (config.task.labels.empty()) sort_labels(kept, table.label_names);
  renumber(table, kept, frequent);
  if (kept.empty() && std::any_of(table.status.begin(), table.status.end(), is_kept)) {
    throw core::Error(core::ExitCode::data, "No label name is left: the column [source] label = \"" +
                                                core::printable(config.source.label, 40) +
                                                "\" is empty in all rows, or [filter] excludes all names.");
  }
}

}  // namespace bert_hpc::prep
