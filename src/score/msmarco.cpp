// MS MARCO's passage ranking (Nguyen et al. 2016, arXiv:1611.09268): the numbers of ms_marco_eval.py. MRR @10 adds, in
// the order of the queries in PREDICTIONS, 1 / rank of the first relevant passage among ranks 1 to 10, and divides by
// the number of queries in GOLD; a query without such a passage counts 0. QueriesRanked counts those of PREDICTIONS.
//
// The script takes each passage of GOLD as relevant, whatever its level, and puts passage 0 at each rank that is left
// out. Here a level below 1 is an error, and a rank that is left out holds no passage.
#include <algorithm>
#include <array>
#include <bitset>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "bert_hpc/core/text.hpp"
#include "json_file.hpp"
#include "lines.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t cut = 10;
constexpr std::size_t most_ranks = 1000;

using Passages = std::unordered_set<std::int64_t>;

struct Ranking {
  std::int64_t query;
  std::array<std::int64_t, cut> first;  ///< passages of ranks 1 to 10; -1: none
  Passages passages{};
  std::bitset<most_ranks> ranks{};
};

std::unordered_map<std::int64_t, Passages> read_relevant(const std::string& path) {
  std::unordered_map<std::int64_t, Passages> relevant;
  each_row(path, Separator::blanks, [&](const Line& line) {
    line.require_columns(4, "query 0 passage level");
    if (line.integer(3, std::numeric_limits<std::int64_t>::min(), largest) < 1) {
      line.fail("the level is below 1, and ms_marco_eval.py takes each passage as relevant; leave the line out.");
    }
    if (!relevant[line.integer(0, 0, largest)].insert(line.integer(2, 0, largest)).second) {
      line.fail("the query has this passage already; remove one.");
    }
  });
  if (relevant.empty()) fail_data(path, "it has no queries; write lines 'query 0 passage level'.");
  return relevant;
}

/// In the order in which the queries first occur.
std::vector<Ranking> read_rankings(const std::string& path) {
  std::vector<Ranking> rankings;
  std::unordered_map<std::int64_t, std::size_t> indices;
  each_row(path, Separator::blanks, [&](const Line& line) {
    line.require_columns(3, "query passage rank");
    const std::int64_t query = line.integer(0, 0, largest), passage = line.integer(1, 0, largest);
    const auto rank = static_cast<std::size_t>(line.integer(2, 1, most_ranks)) - 1;
    const auto [entry, is_new] = indices.emplace(query, rankings.size());
    if (is_new) {
      rankings.push_back({query, {}});
      rankings.back().first.fill(-1);
    }
    Ranking& ranking = rankings[entry->second];
    if (!ranking.passages.insert(passage).second) line.fail("the query has this passage already; remove one.");
    if (ranking.ranks.test(rank)) line.fail("the query has a passage of this rank already; give each its own rank.");
    ranking.ranks.set(rank);
    if (rank < cut) ranking.first[rank] = passage;
  });
  return rankings;
}

Result score_files(const Files& files) {
  const auto relevant = read_relevant(files.gold);
  const std::vector<Ranking> rankings = read_rankings(files.predictions);
  double sum = 0.0;
  std::size_t judged = 0;
  for (const Ranking& ranking : rankings) {
    const auto passages = relevant.find(ranking.query);
    if (passages == relevant.end()) continue;
    ++judged;
    const auto hit = std::find_if(ranking.first.begin(), ranking.first.end(),
                                  [&](std::int64_t passage) { return passages->second.contains(passage); });
    if (hit != ranking.first.end()) sum += 1.0 / static_cast<double>(hit - ranking.first.begin() + 1);
  }
  if (judged == 0) {
    fail_data(files.predictions, "none of its queries is in " + files.gold + "; give the rankings of these queries.");
  }
  Result result;
  result.numbers = {{"MRR @10", sum / static_cast<double>(relevant.size())},
                    {"QueriesRanked", static_cast<double>(rankings.size()), true}};
  const auto note = [&](std::size_t count, const std::string& problem) {
    if (count > 0)
      result.notes.push_back(core::counted(static_cast<std::int64_t>(count), "query", "queries") + problem);
  };
  note(relevant.size() - judged, " of " + files.gold + " without a ranking: 0 in MRR @10.");
  note(rankings.size() - judged, " of " + files.predictions + " without a relevant passage: not in MRR @10.");
  return result;
}

}  // namespace

const Scorer msmarco_scorer = {
    "msmarco", "MS MARCO's passages: GOLD 'query 0 passage level', PREDICTIONS 'query passage rank'; ms_marco_eval.py",
    false, score_files};

}  // namespace bert_hpc::score
