// Internal to the module: the labels of rows, how their text is read, and what the table of rows keeps of them. The
// kinds of labels (tasks::Labels) are distinguished in row_labels.cpp and label_rules.cpp: a further kind is a case in
// their functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bert_hpc/data/label_column.hpp"
#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

/// Whether the text is a number but for a comma before its fraction.
bool has_decimal_comma(std::string_view text);

/// Fills a table with the labels of its rows, one row after the other. Labels are numbered as they come, after those of
/// [task] labels.
class LabelReader {
 public:
  /// Both must outlive it.
  LabelReader(const PrepConfig& config, RowTable& table);

  /// The label of the row under way: train where it can be used, else why it cannot.
  RowStatus read(std::string_view text);
  /// The row under way has come to its end, with a label that was read or without.
  void end_row();

 private:
  RowStatus read_values(std::string_view text);
  RowStatus read_class(std::string_view text);
  RowStatus read_set(std::string_view text);
  RowStatus read_words(std::string_view text);
  bool find_or_add(std::string_view text, std::int32_t& number);
  std::int32_t add(const std::string& name);

  const PrepConfig& config_;
  RowTable& table_;
  const tasks::Labels kind_;  // of the rows' labels
  std::unordered_map<std::string, std::int32_t> numbers_;
  // Of the row under way:
  std::int32_t class_ = 0;     // or level
  std::vector<float> values_;  // one, or one for each label column
  std::vector<std::int32_t> set_;
  tokenize::TokenSpan answer_ = {-1, -1};
};

/// The label of a row of the table, which must outlive it.
data::Label label_of(const RowTable& table, std::int64_t row);

/// Takes a row, which was usable and is not any longer, out of the counts of labels.
void uncount_label(RowTable& table, std::int64_t row);

/// Replaces the numbers of label names by `number` (names). What is not `kept` (names) goes: a row with such a class
/// is rejected, a set loses such names.
void renumber_labels(RowTable& table, const std::vector<std::int32_t>& number, const std::vector<bool>& kept);

/// Divides `rows` into those that are split separately: those of one class, or of near values. The kind can
/// stratify.
std::vector<std::vector<RowNumber>> strata_of(std::vector<RowNumber> rows, const RowTable& table,
                                              const PrepConfig& config);

/// The part of a label for which its row is rejected.
std::string rejected_label(RowStatus status, std::string_view label, const PrepConfig& config);

}  // namespace bert_hpc::prep
