// GLUE's tasks (Wang et al. 2018, doi:10.18653/v1/W18-5446): the numbers that its papers report, as scikit-learn and
// SciPy compute them. GOLD is the task's own dev.tsv with labels, PREDICTIONS the benchmark's form: the header
// "index<tab>prediction" and a line per row of GOLD, whose index counts from 0. A row with the label "-", on which
// MNLI's annotators did not agree, is not scored.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include "bert_hpc/core/text.hpp"
#include "json_file.hpp"
#include "lines.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

enum class Metric { accuracy, accuracy_and_f1, matthews, correlation };

struct Task {
  std::string_view label_column;  ///< its name in GOLD's header; empty: CoLA, which has no header
  std::vector<std::string> labels;
  Metric metric;
};

const std::array<Task, 9>& tasks() {
  static const std::vector<std::string> binary = {"0", "1"}, entailment = {"entailment", "not_entailment"};
  static const std::array<Task, 9> all = {{{"", binary, Metric::matthews},
                                           {"label", binary, Metric::accuracy},
                                           {"Quality", binary, Metric::accuracy_and_f1},
                                           {"score", {}, Metric::correlation},
                                           {"is_duplicate", binary, Metric::accuracy_and_f1},
                                           {"gold_label", {"contradiction", "entailment", "neutral"}, Metric::accuracy},
                                           {"label", entailment, Metric::accuracy},
                                           {"label", entailment, Metric::accuracy},
                                           {"label", binary, Metric::accuracy}}};
  return all;
}

/// A label's index in Task::labels, or STS-B's number; none: not scored, or not yet known.
using Value = std::optional<double>;

double read_value(const Task& task, const Line& line, std::size_t column) {
  if (task.labels.empty()) return line.real(column);
  const auto found = std::find(task.labels.begin(), task.labels.end(), core::trimmed(line.columns[column]));
  if (found == task.labels.end()) {
    line.fail(std::string("'") + core::printable(line.columns[column]) + "' in column " + std::to_string(column + 1) +
              " is not a label of this task; write " + core::listed(task.labels, "or", false) + '.');
  }
  return static_cast<double>(found - task.labels.begin());
}

std::vector<Value> read_gold(const std::string& path, const Task& task) {
  std::vector<Value> values;
  std::size_t columns = 0, column = 0;
  if (task.label_column.empty()) columns = 4, column = 1;  // source, label, author's mark, sentence
  each_row(path, Separator::tab, [&](const Line& line) {
    if (columns == 0) {
      const auto found = std::find(line.columns.begin(), line.columns.end(), task.label_column);
      if (found == line.columns.end()) {
        line.fail("the header has no column '" + std::string(task.label_column) + "'; give the task's dev.tsv.");
      }
      columns = line.columns.size();
      column = static_cast<std::size_t>(found - line.columns.begin());
      return;
    }
    if (line.columns.size() != columns) {
      line.fail("it has " + core::counted(std::ssize(line.columns), "column") + " instead of " +
                std::to_string(columns) + "; give the task's dev.tsv with labels.");
    }
    values.push_back(line.columns[column] == "-" ? Value() : Value(read_value(task, line, column)));
  });
  if (std::none_of(values.begin(), values.end(), [](const Value& value) { return value.has_value(); })) {
    fail_data(path, "it has no rows with labels; give the task's dev.tsv.");
  }
  return values;
}

std::vector<Value> read_predictions(const Files& files, const Task& task, std::size_t rows) {
  std::vector<Value> values(rows);
  bool is_header = true;
  each_row(files.predictions, Separator::tab, [&](const Line& line) {
    line.require_columns(2, "index<tab>prediction");
    if (is_header) {
      is_header = false;
      if (line.columns[0] != "index" || line.columns[1] != "prediction") {
        line.fail("this is not the header; write 'index<tab>prediction'.");
      }
      return;
    }
    const auto index = static_cast<std::size_t>(line.integer(0, 0, static_cast<std::int64_t>(rows) - 1));
    if (values[index]) line.fail("the row has a prediction already; remove one.");
    values[index] = read_value(task, line, 1);
  });
  return values;
}

/// The scored rows' labels and predictions.
struct Pairs {
  std::vector<double> gold, predicted;
};

Pairs read_pairs(const Files& files, const Task& task, Result& result) {
  const std::vector<Value> gold = read_gold(files.gold, task);
  const std::vector<Value> predicted = read_predictions(files, task, gold.size());
  Pairs pairs;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    if (!gold[i]) continue;
    if (!predicted[i]) {
      fail_data(files.predictions, "it has no prediction with index " + std::to_string(i) +
                                       "; add one for each of the " + core::counted(std::ssize(gold), "row") + " of " +
                                       files.gold + '.');
    }
    pairs.gold.push_back(*gold[i]);
    pairs.predicted.push_back(*predicted[i]);
  }
  const auto left = std::ssize(gold) - std::ssize(pairs.gold);
  if (left > 0) {
    result.notes.push_back(core::counted(left, "row") + " of " + files.gold + " with the label '-': not scored.");
  }
  return pairs;
}

/// Counts of two labels, the second of which is the positive one.
struct Confusion {
  double rows = 0.0, gold = 0.0, predicted = 0.0, both = 0.0;
};

Confusion confusion(const Pairs& pairs) {
  Confusion counts;
  for (std::size_t i = 0; i < pairs.gold.size(); ++i) {
    counts.rows += 1.0;
    counts.gold += pairs.gold[i];
    counts.predicted += pairs.predicted[i];
    counts.both += pairs.gold[i] * pairs.predicted[i];
  }
  return counts;
}

/// In the order of operations of scikit-learn's matthews_corrcoef; 0 if all labels or all predictions are equal.
double matthews(const Confusion& counts) {
  const double neither = counts.rows - counts.gold - counts.predicted + counts.both;
  const auto squares = [&](double positive) {
    const double negative = counts.rows - positive;
    return negative * negative + positive * positive;
  };
  const double crossed =
      (counts.rows - counts.gold) * (counts.rows - counts.predicted) + counts.gold * counts.predicted;
  const double covariance = (counts.both + neither) * counts.rows - crossed;
  const double variances = (counts.rows * counts.rows - squares(counts.predicted)) *  //
                           (counts.rows * counts.rows - squares(counts.gold));
  return variances == 0.0 ? 0.0 : covariance / std::sqrt(variances);
}

/// Differences to the mean, over the largest of them, so that no square is beyond a double.
std::vector<double> centered(std::span<const double> values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  std::vector<double> differences;
  double largest = 0.0;
  for (const double value : values) {
    differences.push_back(value - mean);
    largest = std::max(largest, std::abs(value - mean));
  }
  for (double& difference : differences) difference /= largest;
  return differences;
}

double pearson(std::span<const double> first, std::span<const double> second) {
  const std::vector<double> a = centered(first), b = centered(second);
  const auto product = [](const auto& x, const auto& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  return std::clamp(product(a, b) / std::sqrt(product(a, a) * product(b, b)), -1.0, 1.0);
}

/// From 1; equal values have their mean rank.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> found(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) found[order[i]] = (static_cast<double>(begin + end) + 1.0) / 2.0;
  }
  return found;
}

void require_spread(const std::string& path, const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low == *high) fail_data(path, "all of its numbers are equal, and then there is no correlation.");
  if (std::max(std::abs(*low), std::abs(*high)) > 1e100) {
    fail_data(path, "a number in it is beyond 1e100; scale the numbers, which changes no correlation.");
  }
}

Result numbers_of(const Task& task, const Files& files) {
  Result result;
  const Pairs pairs = read_pairs(files, task, result);
  const auto same = static_cast<double>(std::inner_product(pairs.gold.begin(), pairs.gold.end(),
                                                           pairs.predicted.begin(), std::size_t{0}, std::plus<>(),
                                                           [](double a, double b) { return std::size_t{a == b}; }));
  const double accuracy = same / static_cast<double>(pairs.gold.size());
  if (task.metric == Metric::accuracy) {
    result.numbers = {{"acc", accuracy}};
  } else if (task.metric == Metric::matthews) {
    result.numbers = {{"mcc", matthews(confusion(pairs))}};
  } else if (task.metric == Metric::accuracy_and_f1) {
    const Confusion counts = confusion(pairs);
    const double positives = counts.gold + counts.predicted;
    const double f1 = positives > 0.0 ? 2.0 * counts.both / positives : 0.0;
    result.numbers = {{"acc", accuracy}, {"f1", f1}, {"acc_and_f1", (accuracy + f1) / 2.0}};
  } else {
    require_spread(files.gold, pairs.gold);
    require_spread(files.predictions, pairs.predicted);
    const double linear = pearson(pairs.gold, pairs.predicted);
    const double of_ranks = pearson(ranks(pairs.gold), ranks(pairs.predicted));
    result.numbers = {{"pearson", linear}, {"spearmanr", of_ranks}, {"corr", (linear + of_ranks) / 2.0}};
  }
  return result;
}

template <std::size_t task>
Result score_files(const Files& files) {
  return numbers_of(tasks()[task], files);
}

}  // namespace

// In the order of tasks().
const std::array<Scorer, 9> glue_scorers = {
    {{"glue-cola", "GLUE's dev.tsv, and lines 'index<tab>prediction': mcc", false, score_files<0>},
     {"glue-sst-2", "as glue-cola: acc", false, score_files<1>},
     {"glue-mrpc", "as glue-cola: acc, f1", false, score_files<2>},
     {"glue-sts-b", "as glue-cola: pearson, spearmanr", false, score_files<3>},
     {"glue-qqp", "as glue-cola: acc, f1", false, score_files<4>},
     {"glue-mnli", "as glue-cola: acc; matched or mismatched", false, score_files<5>},
     {"glue-qnli", "as glue-cola: acc", false, score_files<6>},
     {"glue-rte", "as glue-cola: acc", false, score_files<7>},
     {"glue-wnli", "as glue-cola: acc", false, score_files<8>}}};

}  // namespace bert_hpc::score
