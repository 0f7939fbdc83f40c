// Fractions that do not sum to 1 are a mistake or a wish for a sample: both are answered with what to write.
#include "split_rules.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/text.hpp"
#include "label_rules.hpp"

namespace bert_hpc::prep {

void complain(config::TomlReader& reader, const std::string& path, const std::string& text,
              std::vector<std::string> alternatives) {
  const std::size_t dot = path.find('.');
  std::string sentence = "[";
  sentence.append(path, 0, dot).append("] ");
  if (dot != std::string::npos) sentence.append(path, dot + 1, std::string::npos).append(" ");
  reader.problem(path, sentence + text, std::move(alternatives));
}

namespace {

constexpr double rounding = 1e-3;  // three digits are enough: 0.333 + 0.333 + 0.333

double sum_of(const SplitConfig& split) {
  return split.train + split.validation + split.test;
}

/// "train = 0.8, validation = 0.1 and test = 0.1": in the proportions given, with sum 1. Fractions of 0 are not named.
std::string proportions(const SplitConfig& split) {
  const double sum = sum_of(split);
  std::vector<std::string> all;
  const auto add = [&](const char* name, double value) {
    if (value > 0) all.push_back(std::string(name) + " = " + core::format_number(value / sum));
  };
  add("train", split.train);
  add("validation", split.validation);
  add("test", split.test);
  return core::listed(all, "and", false);
}

void check_fractions(const SplitConfig& split, config::TomlReader& reader) {
  const std::string path = reader.given("split.train")        ? "split.train"
                           : reader.given("split.validation") ? "split.validation"
                                                              : "split.test";
  const double sum = sum_of(split);
  const std::string shown = core::format_number(sum);
  if (!std::isfinite(sum)) return;  // the key's own problem
  if (sum <= 0) {
    complain(reader, "split", "needs a fraction above 0 in train, validation or test.");
  } else if (sum > 1 + rounding) {
    complain(reader, path,
             "and the other fractions sum to " + shown + "; they are shares of all rows and must sum to 1: write " +
                 proportions(split) + ".");
  } else if (sum < 1 - rounding) {
    complain(reader, path,
             "and the other fractions sum to " + shown + "; they must sum to 1: write " + proportions(split) +
                 ". To use only a part of the rows, write [filter] sample = " + shown + " as well.");
  }
}

/// Fills in what the input does not say.
void complete_fractions(PrepConfig& c, config::TomlReader& reader) {
  SplitConfig& split = c.split;
  const bool train = reader.given("split.train"), validation = reader.given("split.validation"),
             test = reader.given("split.test");
  if (c.wants_labels() && !c.has_labels()) {  // text for mode predict, all of it test data
    if (!train) split.train = 0;
    if (!validation) split.validation = 0;
    if (!test) split.test = 1;
    if (train || validation || test) check_fractions(split, reader);
    return;
  }
  const bool files = !c.source.validation_files.empty() || !c.source.test_files.empty();
  if (!train && !validation && !test && !files) return;
  if (!validation) split.validation = 0;
  if (!test) split.test = 0;
  if (!train) {
    const double rest = 1 - split.validation - split.test;
    split.train = rest > 1e-9 ? rest : 0;
  }
  check_fractions(split, reader);
}

}  // namespace

void complete_split(PrepConfig& c, config::TomlReader& reader) {
  complete_fractions(c, reader);
  if (c.filter.sample > 1 && c.filter.sample != std::floor(c.filter.sample)) {
    complain(reader, "filter.sample", "is a share of the rows from 0 to 1, or a whole number of rows.");
  }
  if (c.filter.sample > 0 && c.source.files.empty()) {
    complain(reader, "filter.sample", "draws from the rows of [source] files, and there are no such files.");
  }
  const TextFormat* const format = find_text_format(c.source.format);
  if (!c.split.group.empty() && format != nullptr && !format->has_columns) {
    complain(reader, "split.group", std::string("is a column, and ") + format->title + " has none.");
  }
  if (!reader.given("split.stratify")) {
    c.split.stratify = c.split.group.empty() && label_rules(c.kind().labels).stratifies_usually;
  } else if (c.split.stratify && !c.split.group.empty()) {
    complain(reader, "split.stratify", "= true does not go with group: rows of one group may have different labels.");
  } else if (c.split.stratify && c.has_value_columns()) {
    complain(reader, "split.stratify",
             "= true divides by one label, and [source] label has several columns: remove it.");
  } else if (c.split.stratify && c.wants_labels() && !label_rules(c.kind().labels).can_stratify) {
    complain(reader, "split.stratify", "= true has no meaning for " + c.task.name + ": remove it.");
  }
}

}  // namespace bert_hpc::prep
