// Sets of labels: scikit-learn's numbers. f1_score(average="micro" and "macro"), accuracy_score (exact_match) and
// hamming_loss at the threshold 0.5, which a probability reaches by being equal; the mean over labels of
// roc_auc_score; label_ranking_average_precision_score.
//
// Both files are tables with commas, or with tabs if the header has one, and the same header: the name of the ids, then
// the labels. GOLD has 1 and 0 per label, PREDICTIONS a probability. Rows are matched by their ids, in any order. A
// row with -1 for all labels, as in the published labels of Kaggle's jigsaw-toxic-comment-classification-challenge,
// is not scored. A label that all scored rows have, or none, has no ROC curve: the mean leaves it out.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>

#include "bert_hpc/core/text.hpp"
#include "json_file.hpp"
#include "lines.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

/// Row-major; `values` of GOLD are 1, 0, or -1 in rows that are not scored.
struct Table {
  std::vector<std::string> header;
  std::vector<std::string> ids{};
  std::vector<double> values{};
  std::size_t labels() const { return header.size() - 1; }
  std::span<const double> row(std::size_t index) const { return std::span(values).subspan(index * labels(), labels()); }
};

std::vector<std::string> read_header(const Line& line) {
  std::vector<std::string> header;
  for (const std::string_view name : line.columns) header.emplace_back(core::trimmed(name));
  if (header.size() < 2) line.fail("the header has no labels; write 'id,first label,second label'.");
  std::vector<std::string> sorted = header;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) line.fail("the header has '" + core::printable(*twice) + "' twice; rename one.");
  return header;
}

/// value(line, column): of one label, or an error.
template <class Value>
Table read_table(const std::string& path, Value value) {
  const std::string text = read_text(path);
  const bool has_tab = std::string_view(text).substr(0, text.find('\n')).find('\t') != std::string::npos;
  Table table;
  std::unordered_map<std::string, std::size_t> lines;
  each_line(path, text, has_tab ? Separator::tab : Separator::comma, [&](const Line& line) {
    if (line.columns.empty()) return;
    if (table.header.empty()) {
      table.header = read_header(line);
      return;
    }
    if (line.columns.size() != table.header.size()) {
      line.fail("it has " + core::counted(std::ssize(line.columns), "column") + ", and the header has " +
                std::to_string(table.header.size()) + "; write as many.");
    }
    const auto [first, is_new] = lines.emplace(line.columns[0], line.number);
    if (!is_new) line.fail("line " + std::to_string(first->second) + " has this id already; remove one.");
    table.ids.emplace_back(line.columns[0]);
    for (std::size_t column = 1; column < line.columns.size(); ++column) table.values.push_back(value(line, column));
  });
  if (table.ids.empty()) fail_data(path, "it has no rows; write a header and a line per row.");
  return table;
}

/// Without the rows that are not scored.
Table read_gold(const std::string& path, Result& result) {
  const Table all = read_table(path, [](const Line& line, std::size_t column) {
    const auto value = static_cast<double>(line.integer(column, -1, 1));
    if (column > 1 && (value < 0.0) != (line.integer(1, -1, 1) < 0)) {
      line.fail("-1 stands in some columns only; write it in all, for a row that is not scored, or in none.");
    }
    return value;
  });
  Table scored{all.header};
  for (std::size_t i = 0; i < all.ids.size(); ++i) {
    const std::span<const double> row = all.row(i);
    if (row[0] < 0.0) continue;
    scored.ids.push_back(all.ids[i]);
    scored.values.insert(scored.values.end(), row.begin(), row.end());
  }
  if (scored.ids.empty()) fail_data(path, "all of its rows have labels of -1; give a file with labels of 0 and 1.");
  const auto left = static_cast<std::int64_t>(all.ids.size() - scored.ids.size());
  if (left > 0) result.notes.push_back(core::counted(left, "row") + " of " + path + " with labels of -1: not scored.");
  return scored;
}

/// The predictions of GOLD's rows, in GOLD's order.
Table read_predictions(const Files& files, const Table& gold, Result& result) {
  Table all = read_table(files.predictions, [](const Line& line, std::size_t column) {
    const double value = line.real(column);
    if (value < 0.0 || value > 1.0) {
      line.fail(std::string("'") + core::printable(line.columns[column]) + "' in column " + std::to_string(column + 1) +
                " is not a probability; write numbers from 0 to 1.");
    }
    return value;
  });
  if (all.header != gold.header) {
    fail_data(files.predictions, "line 1: its header is not that of " + files.gold + ", " +
                                     core::printable(core::listed(gold.header, "and", false)) + "; write the same.");
  }
  std::unordered_map<std::string, std::size_t> indices;
  for (std::size_t i = 0; i < all.ids.size(); ++i) indices.emplace(all.ids[i], i);
  Table ordered{all.header, gold.ids};
  for (const std::string& id : gold.ids) {
    const auto found = indices.find(id);
    if (found == indices.end()) {
      fail_data(files.predictions,
                "it has no row '" + core::printable(id) + "', which " + files.gold + " has; add it.");
    }
    const std::span<const double> row = all.row(found->second);
    ordered.values.insert(ordered.values.end(), row.begin(), row.end());
  }
  const auto others = static_cast<std::int64_t>(all.ids.size() - gold.ids.size());
  if (others > 0) {
    result.notes.push_back(core::counted(others, "row") + " of " + files.predictions + " without labels: not scored.");
  }
  return ordered;
}

/// Counts of one label: rows with it, rows predicted to have it, both.
struct Counts {
  double gold = 0.0, predicted = 0.0, both = 0.0;
  double f1() const { return gold + predicted > 0.0 ? 2.0 * both / (gold + predicted) : 0.0; }
};

void add_set_numbers(Result& result, const Table& gold, const Table& predictions) {
  std::vector<Counts> counts(gold.labels());
  double exact = 0.0, different = 0.0;
  for (std::size_t i = 0; i < gold.ids.size(); ++i) {
    const double before = different;
    for (std::size_t label = 0; label < gold.labels(); ++label) {
      const bool has = gold.row(i)[label] == 1.0, guessed = predictions.row(i)[label] >= 0.5;
      counts[label].gold += has ? 1.0 : 0.0;
      counts[label].predicted += guessed ? 1.0 : 0.0;
      counts[label].both += has && guessed ? 1.0 : 0.0;
      different += has != guessed ? 1.0 : 0.0;
    }
    exact += different == before ? 1.0 : 0.0;
  }
  Counts all;
  double sum = 0.0;
  for (const Counts& one : counts) {
    all.gold += one.gold;
    all.predicted += one.predicted;
    all.both += one.both;
    sum += one.f1();
  }
  const auto rows = static_cast<double>(gold.ids.size()), labels = static_cast<double>(gold.labels());
  result.numbers.push_back({"rows", rows, true});
  result.numbers.push_back({"micro_f1", all.f1()});
  result.numbers.push_back({"macro_f1", sum / labels});
  result.numbers.push_back({"exact_match", exact / rows});
  result.numbers.push_back({"hamming_loss", different / (rows * labels)});
}

/// The share of (row with the label, row without) in which the first has the larger score; equal scores count one half.
std::optional<double> roc_auc(const Table& gold, const Table& predictions, std::size_t label) {
  std::vector<std::pair<double, bool>> rows;
  for (std::size_t i = 0; i < gold.ids.size(); ++i) {
    rows.emplace_back(predictions.row(i)[label], gold.row(i)[label] == 1.0);
  }
  std::sort(rows.begin(), rows.end());
  double positives = 0.0, negatives = 0.0, halves = 0.0;  // halves: exact below 2^53
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    double with = 0.0, without = 0.0;
    for (; end < rows.size() && rows[end].first == rows[begin].first; ++end) {
      (rows[end].second ? with : without) += 1.0;
    }
    halves += with * (2.0 * negatives + without);
    positives += with;
    negatives += without;
  }
  if (positives == 0.0 || negatives == 0.0) return std::nullopt;
  return halves / (2.0 * positives * negatives);
}

void add_roc_auc(Result& result, const Table& gold, const Table& predictions) {
  std::vector<Number> each;
  std::vector<std::string> undefined;
  double sum = 0.0;
  for (std::size_t label = 0; label < gold.labels(); ++label) {
    const std::string& name = gold.header[label + 1];
    const std::optional<double> area = roc_auc(gold, predictions, label);
    if (!area) {
      undefined.push_back(name);
      continue;
    }
    sum += *area;
    each.push_back({name + "_roc_auc", *area});
  }
  if (!each.empty()) result.numbers.push_back({"macro_roc_auc", sum / static_cast<double>(each.size())});
  result.numbers.insert(result.numbers.end(), each.begin(), each.end());
  if (undefined.empty()) return;
  result.notes.push_back("No ROC curve for " + core::listed(undefined, "and") +
                         ", which all rows have or none has: not in macro_roc_auc.");
}

/// Mean over the labels of a row of (its labels ranked as high or higher) / (all labels ranked so).
double ranking_precision(std::span<const double> has, std::span<const double> scores) {
  const auto relevant = static_cast<std::size_t>(std::count(has.begin(), has.end(), 1.0));
  if (relevant == 0 || relevant == has.size()) return 1.0;
  std::vector<std::size_t> order(has.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::vector<double> precision(has.size(), 0.0);
  double hits = 0.0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) hits += has[order[end]];
    for (std::size_t i = begin; i < end; ++i) {
      if (has[order[i]] == 1.0) precision[order[i]] = hits / static_cast<double>(end);
    }
  }
  return std::accumulate(precision.begin(), precision.end(), 0.0) / static_cast<double>(relevant);
}

Result score_files(const Files& files) {
  Result result;
  const Table gold = read_gold(files.gold, result);
  const Table predictions = read_predictions(files, gold, result);
  add_set_numbers(result, gold, predictions);
  double sum = 0.0;
  for (std::size_t i = 0; i < gold.ids.size(); ++i) sum += ranking_precision(gold.row(i), predictions.row(i));
  result.numbers.push_back({"lrap", sum / static_cast<double>(gold.ids.size())});
  add_roc_auc(result, gold, predictions);
  return result;
}

}  // namespace

const Scorer multilabel_scorer = {
    "multilabel",
    "sets of labels: GOLD 'id,label,…' with 0 and 1, PREDICTIONS the same with probabilities; scikit-learn's numbers",
    false, score_files};

}  // namespace bert_hpc::score
