// What prep knows of each row between its passes: 5 bytes a row (status and label) after the scan. With lengths,
// places and order of the later passes it is 25 bytes a row at most; the text itself is never held.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_stream.hpp"

namespace bert_hpc::prep {

/// The split of a row that is kept, or why it was left out.
enum class RowStatus : std::uint8_t {
  train,
  validation,
  test,
  unreadable,
  extra_columns,
  missing_column,
  empty_text,
  empty_label,
  too_many_characters,
  no_number,
  unlisted_label,
  rare_label,
};
inline constexpr int row_status_count = 12;

inline bool is_kept(RowStatus status) {
  return status <= RowStatus::test;
}
/// For summaries: "the text is empty".
const char* reason(RowStatus status);

struct RowTable {
  std::vector<RowStatus> status;
  std::vector<std::int32_t> classes;     ///< classification: the label's number; else empty
  std::vector<float> values;             ///< regression: the label; else empty
  std::vector<std::string> label_names;  ///< classification: by number
  std::vector<std::int64_t> label_rows;  ///< classification: rows kept of each

  // What a user may not have meant, for warnings().
  std::vector<std::string> absent_labels;               ///< of [task] labels: no row has them
  std::map<std::string, std::int64_t> unlisted_labels;  ///< rows of labels that are not in [task] labels; some of them
  std::array<std::string, row_status_count> first_rejects;  ///< the first row left out for each reason; not rare labels
  std::int64_t malformed_rows = 0;                          ///< kept, with bytes that are not UTF-8
  std::string first_malformed;                              ///< its place

  std::int64_t rows() const { return static_cast<std::int64_t>(status.size()); }
  std::array<std::int64_t, row_status_count> counts() const;
};

/// Reads all text once, judges each row, numbers the labels and parts the splits. The same on every rank. Throws as
/// RowStream does, and Error(data) if no row is left, or rows lack something and [filter] drop_missing is false.
RowTable scan_rows(const PrepConfig& config);

/// Why a row of this status was left out, with its particulars: a line of rejects.tsv.
std::string describe_reject(RowStatus status, const SourceRow& row, const PrepConfig& config);

/// What is right to the letter and yet hardly meant: labels that nobody has, splits without rows, text in another
/// encoding. A sentence each.
std::vector<std::string> warnings(const RowTable& table, const PrepConfig& config);

/// "\"a\" 1,200, \"b\" 7 and 31 more": at most ten labels with their rows.
std::string labels_text(const std::vector<std::pair<std::string, std::int64_t>>& labels);

/// Parts the rows listed, in the order listed, into train, validation and test. Boundaries are the rounded cumulative
/// fractions.
void part_rows(const std::vector<std::int64_t>& rows, const SplitConfig& split, std::vector<RowStatus>& status);

/// A number from (seed, use, row) that orders rows at random and depends on nothing else.
std::uint64_t random_key(std::int64_t seed, std::uint64_t use, std::int64_t row);

}  // namespace bert_hpc::prep
