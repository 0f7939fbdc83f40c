// Words on rows: why they are rejected, and what is probably a mistake.
#include <algorithm>
#include <utility>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "label_warnings.hpp"
#include "readers/text_decoder.hpp"
#include "row_labels.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::size_t max_shown_labels = 10;

/// ", and has \"a\" and \"b\"; did you mean \"a\"?" of a row of JSON; else nothing.
std::string keys_text(const SourceRow& row) {
  if (row.keys.empty()) return {};
  const std::vector<std::string> keys(row.keys.begin(), row.keys.end());
  const std::string near = core::nearest_name(row.missing_column, keys);
  return "; its keys are " + core::printable(core::listed(keys, "and"), 300) +
         (near.empty() ? "" : "; did you mean \"" + core::printable(near, 60) + "\"?");
}

std::string columns_text(const std::vector<std::string>& columns) {
  return core::printable(core::listed(columns, "and"), 120);
}

std::string in_quotes(const std::string& label) {
  return '"' + core::printable(label, 40) + '"';
}

/// Splits that were asked for and got no row.
void warn_of_empty_splits(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  const auto counts = table.counts();
  const double fractions[] = {config.split.train, config.split.validation, config.split.test};
  const std::vector<std::string> none, *files[] = {&none, &config.source.validation_files, &config.source.test_files};
  std::vector<std::string> empty;
  for (std::size_t s = 0; s < split_count; ++s) {
    if (counts[s] > 0) continue;
    const std::string name = to_string(static_cast<Split>(s));
    if (!files[s]->empty()) {
      all.push_back("there is no " + name + " split: all rows of [source] " + name + "_files are rejected.");
    } else if (!config.source.files.empty() && fractions[s] > 0) {
      empty.push_back(name + " = " + core::format_number(fractions[s]));
    }
  }
  if (empty.empty()) return;
  const std::string why =
      config.stratifies() && config.kind().has_label_names()
          ? "stratify divides each label separately, and every label has too "
            "few rows. Set [split] stratify = false, or "
            "check [source] label = " +
                in_quotes(config.source.label) + "."
      : config.split.group.empty()
          ? "there are too few rows."
          : "there are too few groups. Check [split] group = " + in_quotes(config.split.group) + ".";
  all.push_back("[split] " + core::listed(empty, "and", false) + " got no rows, so " +
                (empty.size() == 1 ? "this split is" : "these splits are") + " missing: " + why);
}

}  // namespace

std::vector<std::string> warnings(const RowTable& table, const PrepConfig& config) {
  std::vector<std::string> all;
  if (table.malformed_rows > 0) {
    const bool is_usual = is_utf8(config.source.encoding);
    all.push_back(core::counted(table.malformed_rows, "row holds", "rows hold") + " bytes that are not " +
                  (is_usual ? "UTF-8" : "valid in [source] encoding = " + in_quotes(config.source.encoding)) +
                  ", each read as U+FFFD (the first is " + table.first_malformed + ")." +
                  (is_usual ? " If it is text of Windows or Latin-1, set [source] encoding = \"latin-1\"; other "
                              "encodings have their usual names."
                            : ""));
  }
  if (table.noted_rows > 0) {
    all.push_back((config.has_answers() ? core::counted(table.noted_rows, "question contradicts itself and is",
                                                        "questions contradict themselves and are")
                                        : core::counted(table.noted_rows, "row has", "rows have") +
                                              " stray quotes and " + (table.noted_rows == 1 ? "is" : "are")) +
                  " used as notes.tsv says (the first is " + table.first_note + ").");
  }
  const auto counts = table.counts();
  if (const std::int64_t rows = counts[static_cast<std::size_t>(RowStatus::undecided_label)]; rows > 0) {
    all.push_back(core::counted(rows, "row") + " with the label \"-\" " + (rows == 1 ? "is" : "are") +
                  " left out: in data of natural language inference it marks pairs whose annotators did not agree. To "
                  "train on it as a class, set [filter] undecided = true.");
  }
  if (const std::int64_t rows = counts[static_cast<std::size_t>(RowStatus::empty_pair)];
      rows > 0 && !config.has_answers() && !config.parts_texts()) {
    all.push_back(core::counted(rows, "row has", "rows have") + " an empty second text (" +
                  columns_text(config.source.text_pair) + ") and " + (rows == 1 ? "is" : "are") +
                  " left out. To keep such pairs, set [filter] empty_pairs = true.");
  }
  const auto drawn = static_cast<double>(table.rows() - counts[static_cast<std::size_t>(RowStatus::not_sampled)]);
  if (config.filter.sample > 1 && drawn == static_cast<double>(table.rows())) {
    all.push_back("[filter] sample = " + core::with_commas(static_cast<std::int64_t>(config.filter.sample)) +
                  " draws all usable rows of [source] files, which are no more than that.");
  }
  if (table.absent_queries > 0) {
    all.push_back(
        core::counted(table.absent_queries, "query", "queries") +
        " of [source] qrels without any candidate: ms_marco_eval.py counts them 0, metrics leave them out (the "
        "first is " +
        table.first_absent + ").");
  }
  if (config.kind().has_label_names() && !table.label_names.empty()) add_label_warnings(table, config, all);
  warn_of_empty_columns(table, config, all);
  warn_of_empty_splits(table, config, all);
  return all;
}

std::string labels_text(const std::vector<std::pair<std::string, std::int64_t>>& labels) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(labels.size(), max_shown_labels); ++i) {
    shown.push_back(in_quotes(labels[i].first) + ' ' + core::with_commas(labels[i].second));
  }
  const auto more = std::ssize(labels) - std::ssize(shown);
  if (more > 0) shown.push_back(core::with_commas(more) + " more");
  return core::listed(shown, "and", false);
}

const char* reason(RowStatus status) {
  switch (status) {
    case RowStatus::unreadable:
      return "the row cannot be read";
    case RowStatus::extra_columns:
      return "the row has more columns than the header (see [source] extra_columns)";
    case RowStatus::missing_column:
      return "a column is missing";
    case RowStatus::empty_text:
      return "the text is empty";
    case RowStatus::empty_pair:
      return "the second text is empty";
    case RowStatus::empty_negative:
      return "the negative is empty";
    case RowStatus::empty_label:
      return "the label is empty";
    case RowStatus::too_many_characters:
      return "the text is longer than max_characters";
    case RowStatus::no_number:
      return "the label is not a number";
    case RowStatus::repeated_label:
      return "the label has a name twice";
    case RowStatus::repeated_id:
      return "an earlier row of the split has the same id";
    case RowStatus::unequal_words:
      return "the row has not as many labels as words";
    case RowStatus::unusable_id:
      return "an id is empty or holds a blank, which files of rankings cannot have";
    case RowStatus::other_query:
      return "an earlier row has the same query id and another query";
    case RowStatus::unlisted_label:
      return "the label is not in [task] labels";
    case RowStatus::rare_label:
      return "the label is rarer than [filter] allows";
    case RowStatus::undecided_label:
      return "the label is \"-\": the annotators did not agree";
    case RowStatus::not_sampled:
      return "not drawn by [filter] sample";
    default:
      return "";
  }
}

namespace {

/// Advice behind the reason of a label that is a number in the notation of other languages.
std::string decimal_advice(std::string_view label, const PrepConfig& config) {
  if (config.source.decimal == "," || !has_decimal_comma(label)) return {};
  return "; if the comma stands before the fraction, set [source] decimal = \",\"";
}

}  // namespace

std::string describe_reject(RowStatus status, const SourceRow& row, const PrepConfig& config) {
  switch (status) {
    case RowStatus::unreadable:
    case RowStatus::extra_columns:
      return "the row " + row.problem;
    case RowStatus::missing_column:
      return "the row has no column \"" + core::printable(row.missing_column, 60) + "\"" + keys_text(row);
    case RowStatus::empty_text:
      return config.has_second_text() ? "the first text (" + columns_text(config.source.text) + ") is empty"
                                      : reason(status);
    case RowStatus::empty_pair:
      return "the second text (" + columns_text(config.source.text_pair) + ") is empty";
    case RowStatus::empty_negative:
      return "the negative (" + columns_text(config.source.negatives) + ") is empty, and the row has a score";
    case RowStatus::repeated_id:
      return (config.has_candidates() ? "an earlier row of this query has the same id" : reason(status)) +
             (" (\"" + core::printable(row.id, 60) + "\")");
    case RowStatus::unusable_id:
      if (config.names_rows()) return reason(status) + (" (\"" + core::printable(row.id, 60) + "\")");
      [[fallthrough]];
    case RowStatus::other_query:
      return reason(status) +
             (" (query \"" + core::printable(row.query, 60) + "\", passage \"" + core::printable(row.id, 60) + "\")");
    case RowStatus::too_many_characters:
      return std::string(reason(status)) + " = " + std::to_string(config.filter.max_characters);
    case RowStatus::unequal_words:
      return "the row has " + core::counted(count_words(row.text), "word") + " and " +
             core::counted(count_words(row.label), "label");
    case RowStatus::no_number:
      if (config.has_candidates()) {
        return "the label is no level of relevance, a whole number from 0 on (\"" + core::printable(row.label, 60) +
               "\")";
      }
      return reason(status) + (" (\"" + core::printable(rejected_label(status, row.label, config), 60) + "\")") +
             decimal_advice(rejected_label(status, row.label, config), config);
    case RowStatus::repeated_label:
    case RowStatus::unlisted_label:
    case RowStatus::rare_label:
      return reason(status) + (" (\"" + core::printable(rejected_label(status, row.label, config), 60) + "\")");
    default:
      return reason(status);
  }
}

}  // namespace bert_hpc::prep
