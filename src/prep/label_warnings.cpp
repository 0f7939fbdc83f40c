// Labels that are probably a mistake.
#include "label_warnings.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/name_match.hpp"
#include "bert_hpc/tokenize/spelling.hpp"
#include "row_labels.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::size_t most_labels = 10, most_bytes = 80;  // shown; of a label

using LabelRows = std::vector<std::pair<std::string, std::int64_t>>;

std::string shown(const std::string& label) {
  return '"' + core::printable(label, 40) + '"';
}

/// Rows of each label that rows have, listed in [task] labels or not.
std::map<std::string, std::int64_t> rows_by_label(const RowTable& table) {
  std::map<std::string, std::int64_t> rows = table.unlisted_labels;
  for (std::size_t i = 0; i < table.label_names.size(); ++i) {
    if (table.label_rows[i] > 0) rows[table.label_names[i]] = table.label_rows[i];
  }
  return rows;
}

void warn_of_labels(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  const std::map<std::string, std::int64_t> known = rows_by_label(table);
  std::vector<std::string> names;
  for (const auto& [label, rows] : known) names.push_back(label);
  for (const std::string& label : table.absent_labels) {
    const std::string near = core::nearest_name(label, names);
    all.push_back("no row has the label " + shown(label) + " of [task] labels" +
                  (near.empty() ? "."
                                : "; did you mean " + shown(near) + ", which " +
                                      core::counted(known.at(near), "row has", "rows have") + "?"));
  }
  const auto& rows = table.label_rows;
  const auto labels = std::ssize(rows), singles = std::count(rows.begin(), rows.end(), 1);
  const auto used = labels - std::count(rows.begin(), rows.end(), 0);
  const auto only = std::find_if(rows.begin(), rows.end(), [](std::int64_t count) { return count > 0; });
  const auto statuses = table.counts();
  if (used == 1 && *only == statuses[0] + statuses[1] + statuses[2]) {
    all.push_back("only one class: all rows have the label " +
                  shown(table.label_names[static_cast<std::size_t>(only - rows.begin())]) + ".");
  } else if (labels > 2 && 2 * singles >= labels && config.source.label_columns.empty()) {
    all.push_back(core::with_commas(singles) + " of " + core::counted(labels, "label") +
                  " have only one row: is [source] label = " + shown(config.source.label) + " the right column?");
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
  std::map<std::string, std::vector<std::string>> variants;
  for (const auto& [name, count] : rows_by_label(table)) {
    variants[data::label_key(name)].push_back('"' + core::printable(tokenize::visible_spelling(name), most_bytes) +
                                              "\" " + core::with_commas(count));
  }
  std::vector<std::string> groups;
  for (const auto& [key, names] : variants) {
    if (names.size() > 1) groups.push_back(core::listed(names, "and", false));
  }
  if (groups.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), most_labels); ++i) text += (i == 0 ? "" : "; ") + groups[i];
  const auto more = std::ssize(groups) - static_cast<std::ptrdiff_t>(most_labels);
  if (more > 0) text += "; and " + core::with_commas(more) + " more";
  all.push_back(
      "some labels differ only in case, blanks, invisible characters, Unicode composition or the notation of numbers "
      "(label, rows): " +
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
    if (i <= most_labels) others += (i == 1 ? "" : ", ") + shown(names[i]);
  }
  if (names.size() > most_labels + 1) others += ", …";
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

/// Marks of missing values that programs write as texts, such as a column of pandas made of str.
void warn_of_missing_marks(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  if (!config.task.labels.empty() || config.has_words()) return;
  constexpr std::array<std::string_view, 7> marks = {"nan", "NaN", "null", "NULL", "<NA>", "NaT", "#N/A"};
  LabelRows found;
  for (std::size_t i = 0; i < table.label_names.size(); ++i) {
    const std::string& name = table.label_names[i];
    if (std::find(marks.begin(), marks.end(), name) != marks.end()) found.emplace_back(name, table.label_rows[i]);
  }
  if (found.empty()) return;
  all.push_back("some labels are marks of missing values (label, rows): " + labels_text(found) +
                "; here each is a class. To leave such rows out, list the other labels in [task] labels.");
}

/// Parts of `name` between separators, without blanks around them.
std::vector<std::string> parts_of(std::string_view name, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = std::min(name.find(separator), name.size());
    parts.emplace_back(core::trimmed(name.substr(0, end)));
    if (end == name.size()) return parts;
    name.remove_prefix(end + 1);
  }
}

/// Names of sets that are joined by another separator than the input's: "toxic|threat" beside "threat|toxic".
void warn_of_separators(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  if (config.labels() != tasks::Labels::sets || !config.task.labels.empty()) return;
  const auto& names = table.label_names;
  for (const char separator : {'|', ';', ','}) {
    std::map<std::string, std::size_t> used;  // names that a part is in, or is
    for (const std::string& name : names) {
      for (const std::string& part : parts_of(name, separator)) ++used[part];
    }
    std::size_t joined = 0;
    const std::string* first = nullptr;
    for (const std::string& name : names) {
      const std::vector<std::string> parts = parts_of(name, separator);
      const bool is_joined = parts.size() > 1 && std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
                               return !part.empty() && used[part] > 1;
                             });
      joined += is_joined;
      if (is_joined && first == nullptr) first = &name;
    }
    if (joined < 2 || 3 * joined < names.size()) continue;
    all.push_back(core::counted(static_cast<std::int64_t>(joined), "label") + " such as " + shown(*first) +
                  " are made of parts that other labels have too: if each part is a label, set [source] "
                  "label_separator = \"" +
                  separator + "\".");
    return;
  }
}

/// "B-PER" for tags in other notations ("B_PER", "PER-B", "b-per", "o"); "" for what is no tag.
std::string usual_tag(std::string_view name) {
  constexpr std::string_view kinds = "BIESLUMW", small_kinds = "bieslumw", dashes = "-_/:.";
  if (name == "O" || name == "o") return "O";
  if (name.size() < 3) return {};
  const auto kind_of = [&](char c) {
    const std::size_t small = small_kinds.find(c);
    return small != small_kinds.npos ? kinds[small] : kinds.find(c) != kinds.npos ? c : '\0';
  };
  const auto is_dash = [&](char c) { return dashes.find(c) != dashes.npos; };
  if (const char kind = kind_of(name.front()); kind != '\0' && is_dash(name[1])) {
    return kind + ("-" + std::string(name.substr(2)));
  }
  if (const char kind = kind_of(name.back()); kind != '\0' && is_dash(name[name.size() - 2])) {
    return kind + ("-" + std::string(name.substr(0, name.size() - 2)));
  }
  return {};
}

/// Tags of entities in a notation of which no metric of entities is made.
void warn_of_tag_notation(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  if (config.labels() != tasks::Labels::words) return;
  std::string pairs;
  std::size_t others = 0, tags = 0;
  for (const std::string& name : table.label_names) {
    const std::string usual = usual_tag(name);
    if (usual.empty()) return;
    tags += usual != "O";
    if (usual == name) continue;
    if (++others <= 3) pairs += (others == 1 ? "" : ", ") + shown(name) + " as " + shown(usual);
  }
  if (others == 0 || tags == 0) return;
  all.push_back("entities are counted for tags such as \"B-PER\", \"I-PER\" and \"O\" alone: write " + pairs +
                (others > 3 ? ", …" : "") + ", or there are no metrics of entities.");
}

/// Rows of one word each, as of a table whose rows are words.
void warn_of_single_words(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  constexpr std::int64_t least_rows = 10;
  if (config.labels() != tasks::Labels::words || !config.source.sentence.empty()) return;
  std::int64_t kept = 0;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    if (!is_kept(table.status[static_cast<std::size_t>(row)])) continue;
    if (std::ssize(label_of(table, row).names) > 1) return;
    ++kept;
  }
  if (kept < least_rows) return;
  all.push_back(
      "each of the " + core::with_commas(kept) +
      " sentences has one word. If rows are words, set [source] sentence to the column that names the sentence"
      " of each; in CoNLL's columns a blank line ends a sentence.");
}

}  // namespace

void add_label_warnings(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  for (const auto warn : {warn_of_labels, warn_of_mixed_labels, warn_of_missing_marks, warn_of_spellings,
                          warn_of_unassigned, warn_of_short_vectors, warn_of_separators, warn_of_tag_notation,
                          warn_of_single_words, warn_of_unknown_labels}) {
    warn(table, config, all);
  }
}

void warn_of_empty_columns(const RowTable& table, const PrepConfig& config, std::vector<std::string>& all) {
  if (!config.has_value_columns()) return;
  std::vector<std::string> empty;
  for (std::size_t i = 0; i < table.label_rows.size(); ++i) {
    if (table.label_rows[i] == 0) empty.push_back(shown(table.label_names[i]));
  }
  if (empty.empty()) return;
  all.push_back("no row has a number in the label " + std::string(empty.size() == 1 ? "column " : "columns ") +
                core::listed(empty, "and", false) +
                ": nothing trains their outputs. Leave them out of [source] label, or fill them.");
}

}  // namespace bert_hpc::prep
