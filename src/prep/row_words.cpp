// Words on rows: why they are rejected, and what is probably a mistake.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/row_table.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "bert_hpc/tokenize/spelling.hpp"
#include "readers/text_decoder.hpp"
#include "row_labels.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::size_t max_shown_labels = 10;
constexpr std::size_t max_shown_bytes = 80;  // of a label

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

void warn_of_labels(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  std::map<std::string, std::int64_t> known = table.unlisted_labels;
  for (std::size_t i = 0; i < table.label_names.size(); ++i) {
    if (table.label_rows[i] > 0) known[table.label_names[i]] = table.label_rows[i];
  }
  std::vector<std::string> names;
  for (const auto& [label, rows] : known) names.push_back(label);
  for (const std::string& label : table.absent_labels) {
    const std::string near = core::nearest_name(label, names);
    all.push_back("no row has the label " + in_quotes(label) + " of [task] labels" +
                  (near.empty() ? "."
                                : "; did you mean " + in_quotes(near) + ", which " +
                                      core::counted(known.at(near), "row has", "rows have") + "?"));
  }
  const auto& rows = table.label_rows;
  const auto labels = std::ssize(rows), singles = std::count(rows.begin(), rows.end(), 1);
  const auto used = labels - std::count(rows.begin(), rows.end(), 0);
  const auto only = std::find_if(rows.begin(), rows.end(), [](std::int64_t count) { return count > 0; });
  const auto statuses = table.counts();
  if (used == 1 && *only == statuses[0] + statuses[1] + statuses[2]) {
    all.push_back("only one class: all rows have the label " +
                  in_quotes(table.label_names[static_cast<std::size_t>(only - rows.begin())]) + ".");
  } else if (labels > 2 && 2 * singles >= labels && config.source.label_columns.empty()) {
    all.push_back(core::with_commas(singles) + " of " + core::counted(labels, "label") +
                  " have only one row: is [source] label = " + in_quotes(config.source.label) + " the right column?");
  }
}

/// Lists of two numbers are read as the numbers of labels, and may be vectors.
void warn_of_short_vectors(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  const auto& names = table.label_names;
  const bool are_digits =
      std::all_of(names.begin(), names.end(), [](const auto& name) { return name == "0" || name == "1"; });
  if (config.labels() != tasks::Labels::sets || !config.task.labels.empty() || names.size() != 2 || !are_digits) return;
  all.push_back(
      "the labels are 0 and 1 alone: a list of two numbers, as [0, 1], names two labels. If such lists have a "
      "number for each of two labels, write them as [0.0, 1.0], or as columns for [source] label_columns.");
}

/// Numbers beside names, as where a file has tags by name and another by number: they are different labels.
void warn_of_mixed_labels(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  if (!config.task.labels.empty()) return;
  std::vector<std::pair<std::string, std::int64_t>> numbers, names;
  for (std::size_t i = 0; i < table.label_names.size(); ++i) {
    const std::string& name = table.label_names[i];
    auto& kind = name.find_first_not_of("0123456789") == std::string::npos ? numbers : names;
    kind.emplace_back(name, table.label_rows[i]);
  }
  if (numbers.empty() || names.empty()) return;
  all.push_back("some labels are numbers and others are names (label, rows): " + labels_text(numbers) + "; " +
                labels_text(names) + ": each is a label of its own. " +
                (config.has_words() ? "If numbers stand for names, list the names in [task] labels, in the order of "
                                      "their numbers."
                                    : "If that is right, list them in [task] labels, which ends this warning."));
}

/// Names that are probably one label: they differ in case, composition, invisible characters or blanks.
void warn_of_spellings(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  std::map<std::string, std::int64_t> rows = table.unlisted_labels;
  for (std::size_t i = 0; i < table.label_names.size(); ++i) {
    if (table.label_rows[i] > 0) rows[table.label_names[i]] = table.label_rows[i];
  }
  std::map<std::string, std::vector<std::string>> variants;
  for (const auto& [name, count] : rows) {
    variants[tokenize::spelling_key(name)].push_back(
        '"' + core::printable(tokenize::visible_spelling(name), max_shown_bytes) + "\" " + core::with_commas(count));
  }
  std::vector<std::string> groups;
  for (const auto& [key, names] : variants) {
    if (names.size() > 1) groups.push_back(core::listed(names, "and", false));
  }
  if (groups.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), max_shown_labels); ++i) text += (i == 0 ? "" : "; ") + groups[i];
  const auto more = std::ssize(groups) - static_cast<std::ptrdiff_t>(max_shown_labels);
  if (more > 0) text += "; and " + core::with_commas(more) + " more";
  all.push_back("some labels differ only in case, blanks, invisible characters or Unicode composition (label, rows): " +
                text + ". Each is a label of its own" +
                (config.task.labels.empty()
                     ? ": make them one in the source, or list those to keep in [task] labels."
                     : ", and those that [task] labels does not list are left out: make them one in the source."));
}

/// "-1" beside 0, 1, 2, …: Hugging Face's data sets have it for rows without a label.
void warn_of_unassigned(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  constexpr std::size_t least_classes = 3;  // −1, 0, 1 are a scale
  const auto& names = table.label_names;
  if (!config.task.labels.empty() || names.size() <= least_classes || names.front() != "-1") return;
  std::string others;
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (names[i] != std::to_string(i - 1)) return;
    if (i <= max_shown_labels) others += (i == 1 ? "" : ", ") + in_quotes(names[i]);
  }
  if (names.size() > max_shown_labels + 1) others += ", …";
  all.push_back(core::counted(table.label_rows.front(), "row has", "rows have") +
                " the label \"-1\", which Hugging Face's data sets give rows without a label; here it is a class. To "
                "leave such rows out, set [task] labels = [" +
                others + "].");
}

/// Labels of splits with files of their own that no training row has: a model cannot predict them.
void warn_of_unknown_labels(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  const std::vector<std::string> none, *files[] = {&none, &config.source.validation_files, &config.source.test_files};
  if (table.counts()[0] == 0 || (files[1]->empty() && files[2]->empty())) return;
  std::array<std::vector<std::int64_t>, split_count> rows;
  for (auto& of_split : rows) of_split.resize(table.label_names.size());
  std::vector<std::int64_t> last_row(table.label_names.size(), -1);
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const RowStatus status = table.status[static_cast<std::size_t>(row)];
    if (!is_kept(status)) continue;
    const data::Label label = label_of(table, row);
    const std::span<const std::int32_t> numbers = table.set_begins.empty() ? std::span(&label.number, 1) : label.names;
    for (const std::int32_t number : numbers) {
      if (number < 0 || std::exchange(last_row[static_cast<std::size_t>(number)], row) == row) continue;
      ++rows[static_cast<std::size_t>(status)][static_cast<std::size_t>(number)];
    }
  }
  for (std::size_t s = 1; s < split_count; ++s) {
    std::vector<std::pair<std::string, std::int64_t>> unknown;
    for (std::size_t i = 0; i < table.label_names.size(); ++i) {
      if (!files[s]->empty() && rows[0][i] == 0 && rows[s][i] > 0)
        unknown.emplace_back(table.label_names[i], rows[s][i]);
    }
    if (unknown.empty()) continue;
    const bool one = unknown.size() == 1;
    all.push_back("[source] " + std::string(to_string(static_cast<Split>(s))) + "_files " +
                  (one ? "have a label" : "have " + core::with_commas(std::ssize(unknown)) + " labels") +
                  " that no training row has, so no model can learn " + (one ? "it" : "them") +
                  " (label, rows): " + labels_text(unknown) + ".");
  }
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
      rows > 0 && !config.has_answers()) {
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
  if (!table.label_names.empty()) {
    warn_of_labels(table, config, all);
    warn_of_mixed_labels(table, config, all);
    warn_of_spellings(table, config, all);
    warn_of_unassigned(table, config, all);
    warn_of_short_vectors(table, config, all);
    warn_of_unknown_labels(table, config, all);
  }
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
      return "the id of the query or of the passage is empty or holds a blank, which files of rankings cannot have";
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

/// What follows the reason of a label that is a number in the notation of other languages.
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
      return config.has_pairs() ? "the first text (" + columns_text(config.source.text) + ") is empty" : reason(status);
    case RowStatus::empty_pair:
      return "the second text (" + columns_text(config.source.text_pair) + ") is empty";
    case RowStatus::repeated_id:
      return (config.has_candidates() ? "an earlier row of this query has the same id" : reason(status)) +
             (" (\"" + core::printable(row.id, 60) + "\")");
    case RowStatus::unusable_id:
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
      return reason(status) + (" (\"" + core::printable(row.label, 60) + "\")") + decimal_advice(row.label, config);
    case RowStatus::repeated_label:
    case RowStatus::unlisted_label:
    case RowStatus::rare_label:
      return reason(status) + (" (\"" + core::printable(rejected_label(status, row.label, config), 60) + "\")");
    default:
      return reason(status);
  }
}

}  // namespace bert_hpc::prep
