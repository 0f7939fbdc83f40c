// trec_eval's numbers of a ranking: qrels and a run, averaged over the queries that are in both. A query's documents
// are ordered by descending score (in single precision), then by descending name. A document is relevant from level 1;
// those without judgement are not.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>

#include "json_file.hpp"
#include "lines.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

constexpr std::array<std::size_t, 4> cuts = {5, 10, 100, 1000};

using Levels = std::map<std::string, long>;  ///< document → level of relevance

struct Retrieved {
  std::string document;
  float score;
};

std::map<std::string, Levels> read_judgements(const std::string& path) {
  std::map<std::string, Levels> judgements;
  each_row(path, Separator::blanks, [&](const Line& line) {
    line.require_columns(4, "query 0 document level");
    const auto level = static_cast<long>(line.integer(3, INT32_MIN, INT32_MAX));
    const bool is_new = judgements[std::string(line.columns[0])].emplace(line.columns[2], level).second;
    if (!is_new) line.fail("the query has a judgement of this document already; remove one.");
  });
  return judgements;
}

std::map<std::string, std::vector<Retrieved>> read_run(const std::string& path) {
  std::map<std::string, std::map<std::string, float>> run;
  each_row(path, Separator::blanks, [&](const Line& line) {
    line.require_columns(6, "query Q0 document rank score name");
    const bool is_new = run[std::string(line.columns[0])].emplace(line.columns[2], line.single(4)).second;
    if (!is_new) line.fail("the query has this document already; remove one.");
  });
  std::map<std::string, std::vector<Retrieved>> ranked;
  for (const auto& [query, documents] : run) {
    std::vector<Retrieved>& list = ranked[query];
    for (const auto& [document, score] : documents) list.push_back({document, score});
    std::sort(list.begin(), list.end(), [](const Retrieved& a, const Retrieved& b) {
      return a.score != b.score ? a.score > b.score : a.document > b.document;
    });
  }
  return ranked;
}

/// Discounted cumulative gain of the first `cut` levels.
double gain(std::span<const long> levels, std::size_t cut) {
  double sum = 0.0;
  for (std::size_t i = 0; i < std::min(cut, levels.size()); ++i) {
    if (levels[i] > 0) sum += static_cast<double>(levels[i]) / std::log2(static_cast<double>(i) + 2.0);
  }
  return sum;
}

/// The numbers of one query; 0 where it has no relevant document. ideal: the judgements, descending.
std::vector<Number> query_numbers(std::span<const long> ranked, std::span<const long> ideal) {
  const auto relevant = static_cast<double>(std::count_if(ideal.begin(), ideal.end(), [](long l) { return l > 0; }));
  const auto ratio = [](double part, double whole) { return whole > 0.0 ? part / whole : 0.0; };
  double found = 0.0, precisions = 0.0, reciprocal = 0.0;
  std::array<double, cuts.size()> recalled{};
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (ranked[i] <= 0) continue;
    const double rank = static_cast<double>(i) + 1.0;
    if (found == 0.0) reciprocal = 1.0 / rank;
    found += 1.0;
    precisions += found / rank;
    for (std::size_t c = 0; c < cuts.size(); ++c) recalled[c] += i < cuts[c] ? 1.0 : 0.0;
  }
  std::vector<Number> numbers = {{"map", ratio(precisions, relevant)},
                                 {"recip_rank", reciprocal},
                                 {"ndcg", ratio(gain(ranked, ranked.size()), gain(ideal, ideal.size()))}};
  for (const std::size_t cut : cuts) {
    numbers.push_back({"ndcg_cut_" + std::to_string(cut), ratio(gain(ranked, cut), gain(ideal, cut))});
  }
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    numbers.push_back({"recall_" + std::to_string(cuts[c]), ratio(recalled[c], relevant)});
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
    std::vector<long> ranked, ideal;
    for (const Retrieved& one : documents) {
      const auto level = judged->second.find(one.document);
      ranked.push_back(level == judged->second.end() ? 0 : level->second);
    }
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
