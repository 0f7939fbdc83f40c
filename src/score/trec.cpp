// trec_eval's numbers of a ranking: qrels and a run, averaged over the queries that are in both. A query's documents
// are ordered by descending score (in single precision), then by descending name. A document is relevant from level 1;
// those without judgement are not.
#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "bert_hpc/score/qrels.hpp"
#include "bert_hpc/score/ranking.hpp"
#include "json_file.hpp"
#include "lines.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

constexpr std::array<std::size_t, 4> cuts = {5, 10, 100, 1000};

using Run = std::map<std::string, std::map<std::string, float>>;  ///< query → document → score

Run read_run(const std::string& path) {
  Run run;
  each_row(path, Separator::blanks, [&](const Line& line) {
    line.require_columns(6, "query Q0 document rank score name");
    const bool is_new = run[std::string(line.columns[0])].emplace(line.columns[2], line.single(4)).second;
    if (!is_new) line.fail("the query has this document already; remove one.");
  });
  return run;
}

/// The numbers of one query; 0 if it has no relevant document. ideal: the judgements, descending.
std::vector<Number> query_numbers(std::span<const std::int64_t> ranked, std::span<const std::int64_t> ideal) {
  const auto relevant = static_cast<double>(std::count_if(ideal.begin(), ideal.end(), [](auto l) { return l > 0; }));
  std::vector<Number> numbers = {{"map", average_precision(ranked, relevant)},
                                 {"recip_rank", reciprocal_rank(ranked)},
                                 {"ndcg", normalized_gain(ranked, ideal)}};
  for (const std::size_t cut : cuts) {
    numbers.push_back({"ndcg_cut_" + std::to_string(cut), normalized_gain(ranked, ideal, cut)});
  }
  for (const std::size_t cut : cuts) {
    numbers.push_back({"recall_" + std::to_string(cut), recall_at(ranked, relevant, cut)});
  }
  return numbers;
}

Result score_files(const Files& files) {
  const auto judgements = read_judgements(files.gold);
  const auto run = read_run(files.predictions);
  Result result;
  double queries = 0.0;
  for (const auto& [query, documents] : run) {
    const auto judged = judgements.find(query);
    if (judged == judgements.end()) continue;
    std::vector<RankedCandidate> candidates;
    for (const auto& [document, score] : documents) {
      const auto level = judged->second.find(document);
      candidates.push_back({document, score, level == judged->second.end() ? 0 : level->second});
    }
    rank_candidates(candidates);
    std::vector<std::int64_t> ranked, ideal;
    for (const RankedCandidate& one : candidates) ranked.push_back(one.level);
    for (const auto& [document, level] : judged->second) ideal.push_back(level);
    std::sort(ideal.rbegin(), ideal.rend());
    const std::vector<Number> numbers = query_numbers(ranked, ideal);
    if (result.numbers.empty()) {
      result.numbers = numbers;
    } else {
      for (std::size_t i = 0; i < numbers.size(); ++i) result.numbers[i].value += numbers[i].value;
    }
    queries += 1.0;
  }
  if (queries == 0.0)
    fail_data(files.predictions, "none of its queries is in " + files.gold + "; give the run of these queries.");
  for (Number& number : result.numbers) number.value /= queries;
  result.numbers.insert(result.numbers.begin(), {"num_q", queries, true});
  return result;
}

}  // namespace

const Scorer trec_scorer = {
    "trec", "rankings: GOLD are qrels, PREDICTIONS a run in TREC's form; the numbers of trec_eval", false, score_files};

}  // namespace bert_hpc::score
