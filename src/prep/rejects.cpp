// Input of which most rows are unusable is read in a wrong way: say so instead of training on the rest.
#include "rejects.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

using Counts = std::array<std::int64_t, row_status_count>;

std::int64_t count_of(const Counts& counts, RowStatus status) {
  return counts[static_cast<std::size_t>(status)];
}

std::int64_t broken_rows(const Counts& counts) {
  std::int64_t broken = 0;
  for (int s = 0; s < row_status_count; ++s) {
    if (is_broken(static_cast<RowStatus>(s))) broken += counts[static_cast<std::size_t>(s)];
  }
  return broken;
}

/// " If it is a tab that separates …" where nearly all broken rows hold another format's delimiter, and not their own.
std::string delimiter_cause(const RowTable& table, const PrepConfig& config, std::int64_t broken) {
  if (!config.text_format().takes_table_keys) return {};
  const char own = config.row_format().delimiter;
  const auto nearly_all = [&](std::size_t i) { return 10 * table.rejects_with[i] >= 9 * broken; };
  const auto listed = std::find(likely_delimiters.begin(), likely_delimiters.end(), own);
  const bool has_own =
      listed != likely_delimiters.end() && nearly_all(static_cast<std::size_t>(listed - likely_delimiters.begin()));
  for (std::size_t i = 0; i < likely_delimiters.size(); ++i) {
    const char c = likely_delimiters[i];
    const bool in_text = c != '\t' && has_own;  // what is between columns may hold all but tabs
    if (c == own || in_text || !nearly_all(i)) continue;
    if (c == '\t') return " These rows hold tabs: if a tab separates the columns, set [source] format = \"tsv\".";
    const std::string cure = c == ',' ? "format = \"csv\"" : std::string("delimiter = \"") + c + "\"";
    return std::string(" These rows hold \"") + c + "\": if it separates the columns, set [source] " + cure + ".";
  }
  return {};
}

/// What probably went wrong, by the reason of more than half of the broken rows.
std::string likely_cause(const RowTable& table, const PrepConfig& config, const Counts& counts) {
  const std::int64_t broken = broken_rows(counts);
  if (broken == 0) return {};
  if (std::string cause = delimiter_cause(table, config, broken); !cause.empty()) return cause;
  const auto mostly = [&](RowStatus status) { return 2 * count_of(counts, status) > broken; };
  if (mostly(RowStatus::no_number)) {
    return " Check [source] label = \"" + core::printable(core::listed(config.columns_of_labels(), "and", false), 40) +
           "\"; for labels that are names set [task] name = \"classification\".";
  }
  if (mostly(RowStatus::empty_pair) && !config.has_answers()) {
    return " To keep pairs whose second text is empty, set [filter] empty_pairs = true.";
  }
  if (mostly(RowStatus::extra_columns)) {
    return " Text that holds the delimiter needs quotes around it; if the last columns are not needed, set [source] "
           "extra_columns = true.";
  }
  return {};
}

/// A line for each reason that rows were rejected for.
std::string reasons(const RowTable& table, const Counts& counts, bool only_broken) {
  std::string text;
  for (int s = split_count; s < row_status_count; ++s) {
    const auto status = static_cast<RowStatus>(s);
    if (count_of(counts, status) == 0 || (only_broken && !is_broken(status))) continue;
    text += "\n  " + core::counted(count_of(counts, status), "row") + ": " + reason(status);
    const std::string& first = table.first_rejects[static_cast<std::size_t>(s)];
    if (!first.empty()) text += " (the first is " + first + ")";
  }
  return text;
}

}  // namespace

void refuse_many_rejects(const RowTable& table, const PrepConfig& config) {
  const Counts counts = table.counts();
  const std::string rows = core::with_commas(table.rows());
  if (counts[0] + counts[1] + counts[2] == 0) {
    std::string text = "No row is left of the " + rows + " in the source." + reasons(table, counts, false);
    const auto& unlisted = table.unlisted_labels;
    if (!unlisted.empty())
      text += "\n  Labels not in [task] labels: " + labels_text({unlisted.begin(), unlisted.end()});
    throw Error(ExitCode::data, text + "\nCheck the columns in [source] and the limits in [filter]." +
                                    likely_cause(table, config, counts));
  }
  const std::int64_t broken = broken_rows(counts);
  const double share = static_cast<double>(broken) / static_cast<double>(table.rows());
  if (share <= config.filter.max_rejected) return;
  throw Error(
      ExitCode::data,
      core::with_commas(broken) + " of " + rows + " rows (" + core::format_number(100 * share, 4) +
          "%) cannot be used, more than [filter] max_rejected = " + core::format_number(config.filter.max_rejected) +
          " allows:" + reasons(table, counts, true) + "\nNothing is written." + likely_cause(table, config, counts) +
          " If the remaining rows are what you want, raise [filter] max_rejected.");
}

}  // namespace bert_hpc::prep
