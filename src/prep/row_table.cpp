#include "bert_hpc/prep/row_table.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/answer_rows.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

std::array<std::int64_t, row_status_count> RowTable::counts() const {
  std::array<std::int64_t, row_status_count> counts{};
  for (const RowStatus s : status) ++counts[static_cast<std::size_t>(s)];
  return counts;
}

bool RowTable::has_training_rows() const {
  return std::find(status.begin(), status.end(), RowStatus::train) != status.end();
}

void RowTable::prefetch_label(std::int64_t row) const {
  const auto index = static_cast<std::size_t>(row);
  if (!classes.empty()) classes.prefetch(index);
  if (!values.empty()) __builtin_prefetch(values.data() + index * std::max<std::size_t>(1, label_names.size()));
}

void RowTable::shrink_to_fit() {
  status.shrink_to_fit();
  classes.shrink_to_fit();
  values.shrink_to_fit();
  levels.shrink_to_fit();
  set_begins.shrink_to_fit();
  set_names.shrink_to_fit();
  answers.shrink_to_fit();
  groups.shrink_to_fit();
  queries.shrink_to_fit();
}

std::array<AnswerCounts, split_count> RowTable::answer_counts() const {
  std::array<AnswerCounts, split_count> counts{};
  for (std::size_t row = 0; row < answers.size(); ++row) {
    if (!is_kept(status[row])) continue;
    AnswerCounts& split = counts[static_cast<std::size_t>(status[row])];
    ++split.questions;
    if (answers[row] == no_answer) ++split.unanswerable;
  }
  return counts;
}

RowStatus status_of(const RowTable& table, const SourceRow& row) {
  if (row.index < table.rows()) return table.status[static_cast<std::size_t>(row.index)];
  throw Error(ExitCode::data,
              "The source files grew while they were read; run bert_hpc_prep again when they no longer change.");
}

}  // namespace bert_hpc::prep
