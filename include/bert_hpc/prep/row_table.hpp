// What prep knows of each row between its passes: after the scan a byte of status and the label, which is a byte of up
// to 256 classes and else 2 or 4; 8 bytes more with [split] group and as many with queries; a set of names takes 8 and
// 4 per name. With lengths (2 bytes to 65,535 tokens) and order (4) of the later passes it is 8 bytes per row of a
// classification, and 7 more for each further window of a row; the text itself is never held.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bert_hpc/core/narrow_array.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_number.hpp"
#include "bert_hpc/prep/row_stream.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

/// The split of a row that is kept, or why it is rejected.
enum class RowStatus : std::uint8_t {
  train,
  validation,
  test,
  unreadable,
  extra_columns,
  missing_column,
  empty_text,
  empty_pair,
  empty_negative,  ///< of a row with a score
  empty_label,
  too_many_characters,
  no_number,
  repeated_label,
  repeated_id,
  unequal_words,
  unusable_id,
  other_query,
  unlisted_label,
  rare_label,
  undecided_label,  ///< "-" among labels of natural language inference
  not_sampled,      ///< nothing is wrong with it: [filter] sample did not draw it
};
inline constexpr int row_status_count = 21;

/// Characters that separate columns in files of other formats.
inline constexpr std::array<char, 4> likely_delimiters = {'\t', ';', '|', ','};

inline bool is_kept(RowStatus status) {
  return status <= RowStatus::test;
}
/// Whether something is wrong with the row itself. Else it is used, or a filter of the user excludes it.
inline bool is_broken(RowStatus status) {
  switch (status) {
    case RowStatus::unreadable:
    case RowStatus::extra_columns:
    case RowStatus::missing_column:
    case RowStatus::empty_text:
    case RowStatus::empty_pair:
    case RowStatus::empty_negative:
    case RowStatus::empty_label:
    case RowStatus::no_number:
    case RowStatus::repeated_label:
    case RowStatus::repeated_id:
    case RowStatus::unequal_words:
    case RowStatus::unusable_id:
    case RowStatus::other_query:
      return true;
    default:
      return false;
  }
}
/// For summaries: "the text is empty".
const char* reason(RowStatus status);

/// Answers of a split, for tasks with answers.
struct AnswerCounts {
  std::int64_t questions = 0, unanswerable = 0;
};

struct RowTable {
  std::vector<RowStatus> status;
  // One of these is filled, by the kind of labels (tasks::Labels).
  core::NarrowArray classes;             ///< (rows): the label's number
  std::vector<float> values;             ///< (rows), or (rows, label_names); NaN: one of several that is unknown
  std::vector<std::int32_t> levels;      ///< (rows): of relevance
  std::vector<std::int64_t> set_begins;  ///< (rows + 1): a row's names in set_names
  std::vector<std::int32_t> set_names;   ///< numbers of the names of all rows' sets, or of the classes of all words
  /// (rows): characters [begin, end) of the first answer; (−1, −1): there is none.
  std::vector<tokenize::TokenSpan> answers;
  std::vector<std::uint64_t> groups;   ///< [split] group: hash of the row's value; else empty
  std::vector<std::uint64_t> queries;  ///< (rows) of candidates: hash of the row's query; else empty
  /// By query's hash: levels from 1 on of what [source] qrels judge and is no candidate.
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> further_levels;
  std::vector<std::string> label_names;  ///< of labels with names, by number; of numbers several label columns
  std::vector<std::int64_t> label_rows;  ///< rows kept that have each

  // What a user may not have meant, for warnings().
  std::vector<std::string> absent_labels;               ///< of [task] labels: no row has them
  std::map<std::string, std::int64_t> unlisted_labels;  ///< rows of labels that are not in [task] labels; some of them
  std::array<std::string, row_status_count> first_rejects;            ///< the first row of each reason; not rare labels
  std::array<std::int64_t, likely_delimiters.size()> rejects_with{};  ///< csv, tsv: broken rows that hold each of them
  std::int64_t noted_rows = 0;                                        ///< kept: SourceRow::note
  std::string first_note;                                             ///< its location and words
  std::int64_t skipped_lines = 0;                                     ///< RowStream::skipped_lines() of all text
  std::int64_t absent_queries = 0;                                    ///< of [source] qrels: without any candidate
  std::string first_absent;                                           ///< its location
  std::int64_t malformed_rows = 0;                                    ///< kept, with bytes that are not UTF-8
  std::string first_malformed;                                        ///< its location

  std::int64_t rows() const { return static_cast<std::int64_t>(status.size()); }
  bool has_training_rows() const;
  void prefetch_label(std::int64_t row) const;  ///< asks for the memory of a label that is read soon
  void shrink_to_fit();                         ///< gives back what growing arrays of rows have reserved
  std::array<std::int64_t, row_status_count> counts() const;
  /// Questions that are kept; zeros where answers are not known or of another task.
  std::array<AnswerCounts, split_count> answer_counts() const;
};

/// Status of a row that is read again. Throws Error(data) if the text has grown since the scan.
RowStatus status_of(const RowTable& table, const SourceRow& row);

/// Why a row of this status is rejected, with its particulars: a line of rejects.tsv.
std::string describe_reject(RowStatus status, const SourceRow& row, const PrepConfig& config);

/// What is valid and probably a mistake: labels that no row has, splits without rows, text in another encoding. One
/// sentence each.
std::vector<std::string> warnings(const RowTable& table, const PrepConfig& config);

/// "\"a\" 1,200, \"b\" 7 and 31 more": at most ten labels with their rows.
std::string labels_text(const std::vector<std::pair<std::string, std::int64_t>>& labels);

/// Divides the rows listed, in the order listed, into train, validation and test. Boundaries are the rounded cumulative
/// fractions. With `groups` (by row), rows of one group, which are neighbours in the list, go where the group's middle
/// goes.
void divide_rows(const std::vector<RowNumber>& rows, const SplitConfig& split, const std::vector<std::uint64_t>& groups,
                 std::vector<RowStatus>& status);

/// A number from (seed, use, row) that orders rows at random and depends on nothing else.
std::uint64_t random_key(std::int64_t seed, std::uint64_t use, std::int64_t row);

}  // namespace bert_hpc::prep
