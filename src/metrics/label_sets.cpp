// Any number of label names for each sample. A name is in the predicted set where its output is at least that of the
// threshold. Sums: for each name how many samples have it, how many are predicted to have it,
// and both; the samples whose two sets are the same; the ranking precision; then each sample's outputs, 0 on the ranks
// that did not make them, or, of very many, how many are in each bin: for each name of the samples without it and with
// it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bert_hpc/metrics/best_threshold.hpp"
#include "bert_hpc/metrics/ranking.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/metrics/score_bins.hpp"

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 0.0;
}

std::size_t names_of(const EvaluatedSet& set) {
  return static_cast<std::size_t>(set.outputs);
}

/// Whether the outputs are kept one by one.
bool keeps_outputs(const EvaluatedSet& set) {
  return set.sets.size() <= max_kept_scores;
}

std::size_t bins_of(const EvaluatedSet& set) {
  return keeps_outputs(set) ? 0 : score_bins(names_of(set));
}

/// Sums before those of the outputs.
std::size_t counts_size(std::size_t names) {
  return 3 * names + 3;
}

ClassCounts counts_of(const EvaluatedSet& set, ConstSums sums) {
  const std::size_t names = names_of(set);
  return {sums.subspan(0, names), sums.subspan(names, names), sums.subspan(2 * names, names)};
}

std::int64_t size(const EvaluatedSet& set) {
  const std::size_t names = names_of(set);
  const std::size_t outputs = keeps_outputs(set) ? set.sets.size() : 2 * names * bins_of(set);
  return static_cast<std::int64_t>(counts_size(names) + outputs);
}

/// Sums of multiples of 2^-26 and of 2^-53: both are exact for 2^26 samples, in any order. precision is at most 1.
void add_ranking(double precision, Sums sums) {
  const double high = std::nearbyint(precision * 0x1p26) * 0x1p-26;
  sums[0] += high;
  sums[1] += std::nearbyint((precision - high) * 0x1p53) * 0x1p-53;
}

/// Counts a sample's outputs. sums (names, 2, bins)
void count_outputs(std::span<const float> outputs, std::span<const std::uint8_t> own, std::size_t bins, Sums sums) {
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    count_score(outputs[n], sums.subspan((2 * n + (own[n] == 1 ? 1 : 0)) * bins, bins));
  }
}

void add(const EvaluatedSet& set, const Results& results, Sums sums) {
  const std::size_t names = names_of(set), bins = bins_of(set);
  const Sums actual = sums.subspan(0, names), predicted = sums.subspan(names, names),
             hits = sums.subspan(2 * names, names), scores = sums.subspan(counts_size(names));
  for (std::size_t row = 0; row * names < results.outputs.size(); ++row) {
    const auto sample = static_cast<std::size_t>(results.batch.sample[results.batch.targets.rows.sequence[row]]);
    const std::span<const float> outputs = results.outputs.subspan(row * names, names);
    const std::span<const std::uint8_t> own = set.sets.subspan(sample * names, names);
    bool same = true;
    for (std::size_t n = 0; n < names; ++n) {
      const bool has = own[n] == 1, guessed = outputs[n] >= set.least_output;
      actual[n] += has;
      predicted[n] += guessed;
      hits[n] += has && guessed;
      same = same && has == guessed;
    }
    sums[3 * names] += same;
    add_ranking(label_ranking_precision(outputs, own), sums.subspan(3 * names + 1, 2));
    if (keeps_outputs(set)) {
      std::copy(outputs.begin(), outputs.end(), scores.subspan(sample * names).begin());
    } else if (bins > 0) {
      count_outputs(outputs, own, bins, scores);
    }
  }
}

/// The area of one name.
double area_of_kept(const EvaluatedSet& set, ConstSums scores, std::size_t name) {
  const std::size_t names = names_of(set), samples = scores.size() / names;
  std::vector<double> own(samples);
  std::vector<std::uint8_t> has(samples);
  for (std::size_t s = 0; s < samples; ++s) {
    own[s] = scores[s * names + name];
    has[s] = set.sets[s * names + name];
  }
  return roc_auc(own, has);
}

double area_of_bins(ConstSums counts, std::size_t name, std::size_t bins) {
  return roc_auc_of_bins(counts.subspan(2 * name * bins, bins), counts.subspan((2 * name + 1) * bins, bins));
}

/// The mean over the names that some samples have and others have not; NaN if there is none, or of NaN.
double macro_roc_auc(const EvaluatedSet& set, ConstSums sums) {
  const std::size_t names = names_of(set), bins = bins_of(set);
  const ConstSums scores = sums.subspan(counts_size(names));
  if (scores.empty()) return undefined;
  const auto samples = static_cast<double>(set.sets.size() / names);
  double sum = 0, defined = 0;
  for (std::size_t n = 0; n < names; ++n) {
    if (sums[n] == 0 || sums[n] == samples) continue;
    sum += bins > 0 ? area_of_bins(scores, n, bins) : area_of_kept(set, scores, n);
    ++defined;
  }
  return defined > 0 ? sum / defined : undefined;
}

/// The best threshold for the decisions of all names.
BestThreshold threshold_of(const EvaluatedSet& set, ConstSums scores) {
  const std::size_t names = names_of(set), bins = bins_of(set);
  if (bins == 0) return best_threshold(scores, set.sets.first(scores.size()));
  std::vector<double> absent(bins), present(bins);
  for (std::size_t n = 0; n < names; ++n) {
    for (std::size_t bin = 0; bin < bins; ++bin) {
      absent[bin] += scores[2 * n * bins + bin];
      present[bin] += scores[(2 * n + 1) * bins + bin];
    }
  }
  return best_threshold_of_bins(absent, present);
}

/// As scikit-learn's with zero_division = 0: a name that is never there and never predicted counts 0 in macro_f1.
std::vector<double> values(const EvaluatedSet& set, const LossSum&, ConstSums sums) {
  const std::size_t names = names_of(set);
  double actual = 0, predicted = 0, hits = 0, f1s = 0;
  for (std::size_t n = 0; n < names; ++n) {
    const double own_actual = sums[n], own_predicted = sums[names + n], own_hits = sums[2 * names + n];
    actual += own_actual;
    predicted += own_predicted;
    hits += own_hits;
    f1s += ratio(2 * own_hits, own_actual + own_predicted);
  }
  const BestThreshold best = threshold_of(set, sums.subspan(counts_size(names)));
  const double samples = names > 0 ? static_cast<double>(set.sets.size() / names) : 0.0;
  return {ratio(2 * hits, actual + predicted),
          ratio(f1s, static_cast<double>(names)),
          ratio(sums[3 * names], samples),
          macro_roc_auc(set, sums),
          samples > 0 ? (sums[3 * names + 1] + sums[3 * names + 2]) / samples : undefined,
          best.f1,
          best.probability};
}

/// The sums, the counts to be recorded, and of one name a score, a rank, the order and what is positive, or of all
/// outputs the output and whether the name is there, or the bins of all names together.
std::int64_t bytes(const EvaluatedSet& set) {
  const std::int64_t kept = keeps_outputs(set) && set.outputs > 0 ? std::ssize(set.sets) : 0;
  const std::int64_t samples = set.outputs > 0 ? kept / set.outputs : 0;
  const auto bins = static_cast<std::int64_t>(bins_of(set));
  return (size(set) + 3 * set.outputs + std::max(4 * samples, kept) + 2 * bins) * std::int64_t{sizeof(double)};
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
