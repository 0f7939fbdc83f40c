// Numbers of one query's ranking, and of the answers that rankings give. trec_eval and the scripts of WikiQA and MS
// MARCO define them; the scorers and the program's metrics share them, to the last digit.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace bert_hpc::score {

struct RankedCandidate {
  std::string_view id;
  float score = 0;
  std::int64_t level = 0;  ///< of relevance; relevant from 1 on
};

/// By descending score, then by descending id: trec_eval's order. A NaN comes last.
void rank_candidates(std::vector<RankedCandidate>& candidates);

inline constexpr std::size_t whole_ranking = std::numeric_limits<std::size_t>::max();

/// `ranked`: levels in the order of the ranking. `relevant`: how many are relevant to the query, those that are no
/// candidates too. 0 if there is none.
double average_precision(std::span<const std::int64_t> ranked, double relevant);
/// 1 / the first rank of a relevant candidate among the first `cut`; 0 if there is none.
double reciprocal_rank(std::span<const std::int64_t> ranked, std::size_t cut = whole_ranking);
/// Discounted cumulative gain of the first `cut` against that of `ideal`: all levels that the query has, descending.
double normalized_gain(std::span<const std::int64_t> ranked, std::span<const std::int64_t> ideal,
                       std::size_t cut = whole_ranking);
double recall_at(std::span<const std::int64_t> ranked, double relevant, std::size_t cut);

/// The best candidate of a question.
struct TriggeredAnswer {
  double score = 0;
  bool is_right = false;
};

struct Triggering {
  double precision = 0, recall = 0, f1 = 0;
};

/// Precision, recall and F1 if `right` of `answered` questions have the right answer and `answerable` questions have
/// one.
Triggering triggering(double right, double answered, double answerable);

struct BestTriggering {
  Triggering numbers;
  double threshold = 0;
};
/// At the highest threshold of the best F1. `answers` is not empty.
BestTriggering best_triggering(std::vector<TriggeredAnswer> answers, double answerable);

}  // namespace bert_hpc::score
