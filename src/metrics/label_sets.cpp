// Any number of label names for each sample. A name is in the predicted set where its output is at least that of the
// threshold. Sums: for each name how many samples have it, how many are predicted to have it,
// and both; the samples whose two sets are the same; then each sample's outputs, 0 on the ranks that did not make them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bert_hpc/metrics/best_threshold.hpp"
#include "bert_hpc/metrics/ranking.hpp"
#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

/// With more outputs than this, of all samples, there are no figures of their order: 128 MiB of sums.
constexpr std::size_t max_ranked_outputs = std::size_t{1} << 24;

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0.0;
}

std::size_t names_of(const EvaluatedSet& set) {
  return static_cast<std::size_t>(set.outputs);
}

bool is_ranked(const EvaluatedSet& set) {
  return set.sets.size() <= max_ranked_outputs;
}

ClassCounts counts_of(const EvaluatedSet& set, ConstSums sums) {
  const std::size_t names = names_of(set);
  return {sums.subspan(0, names), sums.subspan(names, names), sums.subspan(2 * names, names)};
}

std::int64_t size(const EvaluatedSet& set) {
  return 3 * set.outputs + 1 + (is_ranked(set) ? std::ssize(set.sets) : 0);
}

void add(const EvaluatedSet& set, const Results& results, Sums sums) {
  const std::size_t names = names_of(set);
  const Sums actual = sums.subspan(0, names), predicted = sums.subspan(names, names),
             hits = sums.subspan(2 * names, names);
  const Sums scores = sums.subspan(3 * names + 1);
  for (std::size_t row = 0; row * names < results.outputs.size(); ++row) {
    const auto sample = static_cast<std::size_t>(results.batch.sample[results.batch.targets.rows.sequence[row]]);
    bool same = true;
    for (std::size_t n = 0; n < names; ++n) {
      const float output = results.outputs[row * names + n];
      const bool has = set.sets[sample * names + n] == 1, guessed = output >= set.least_output;
      actual[n] += has;
      predicted[n] += guessed;
      hits[n] += has && guessed;
      same = same && has == guessed;
      if (!scores.empty()) scores[sample * names + n] = output;
    }
    sums[3 * names] += same;
  }
}

/// The mean over the names that some samples have and others have not; NaN where there is none, or of NaN.
double macro_roc_auc(const EvaluatedSet& set, ConstSums scores) {
  const std::size_t names = names_of(set), samples = scores.size() / names;
  double sum = 0, defined = 0;
  std::vector<double> own(samples);
  std::vector<std::uint8_t> has(samples);
  for (std::size_t n = 0; n < names; ++n) {
    std::size_t positives = 0;
    for (std::size_t s = 0; s < samples; ++s) {
      own[s] = scores[s * names + n];
      has[s] = set.sets[s * names + n];
      positives += has[s];
    }
    if (positives == 0 || positives == samples) continue;
    sum += roc_auc(own, has);
    ++defined;
  }
  return defined > 0 ? sum / defined : undefined;
}

/// The mean over the samples; NaN where there is none, or of NaN.
double label_ranking(const EvaluatedSet& set, ConstSums scores) {
  const std::size_t names = names_of(set);
  double sum = 0;
  for (std::size_t begin = 0; begin < scores.size(); begin += names) {
    sum += label_ranking_precision(scores.subspan(begin, names), set.sets.subspan(begin, names));
  }
  return scores.empty() ? undefined : sum / static_cast<double>(scores.size() / names);
}

/// As scikit-learn's with zero_division = 0: a name that is never there and never predicted counts 0 in macro_f1.
std::vector<double> values(const EvaluatedSet& set, const LossSum& loss, ConstSums sums) {
  const std::size_t names = names_of(set);
  double actual = 0, predicted = 0, hits = 0, f1s = 0;
  for (std::size_t n = 0; n < names; ++n) {
    const double own_actual = sums[n], own_predicted = sums[names + n], own_hits = sums[2 * names + n];
    actual += own_actual;
    predicted += own_predicted;
    hits += own_hits;
    f1s += ratio(2 * own_hits, own_actual + own_predicted);
  }
  const ConstSums scores = sums.subspan(3 * names + 1);
  const BestThreshold best = best_threshold(scores, set.sets.first(scores.size()));
  return {ratio(2 * hits, actual + predicted),
          ratio(f1s, static_cast<double>(names)),
          ratio(sums[3 * names], loss.targets),
          macro_roc_auc(set, scores),
          label_ranking(set, scores),
          best.f1,
          best.probability};
}

/// The sums, the counts to be recorded, and of one name a score, a rank, the order and what is positive, or of all
/// outputs the output and whether the name is there: these take more than the order of one sample's names.
std::int64_t bytes(const EvaluatedSet& set) {
  const std::int64_t ranked = is_ranked(set) && set.outputs > 0 ? std::ssize(set.sets) : 0;
  const std::int64_t samples = set.outputs > 0 ? ranked / set.outputs : 0;
  return (size(set) + 3 * set.outputs + std::max(4 * samples, ranked)) * std::int64_t{sizeof(double)};
}

}  // namespace

const Family& label_sets() {
  static const Family family = {
      .metrics = {{"micro_f1", "micro f1"},
                  {"macro_f1", "macro f1"},
                  {"exact_match", "exact match"},
                  {.name = "macro_roc_auc", .label = "macro ROC AUC", .in_log = false},
                  {.name = "lrap", .label = "LRAP", .in_log = false},
                  {.name = "best_micro_f1", .label = "best micro f1", .in_log = false},
                  {.name = "best_threshold", .label = "best threshold", .in_log = false, .is_goal = false}},
      .reads_outputs = true,
      .size = size,
      .add = add,
      .values = values,
      .bytes = bytes,
      .class_counts = counts_of};
  return family;
}

}  // namespace bert_hpc::metrics
