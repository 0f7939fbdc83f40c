// trec_eval's numbers of a ranking: qrels and a run, averaged over the queries that are in both. A query's documents
// are ordered by descending score (in single precision), then by descending name. A document is relevant from level 1;
// those without judgement are not.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <span>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "json_file.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

constexpr std::int64_t max_bytes = std::int64_t{1} << 32;
constexpr std::array<std::size_t, 4> cuts = {5, 10, 100, 1000};

using Levels = std::map<std::string, long>;  ///< document → level of relevance

struct Retrieved {
  std::string document;
  float score;
};

struct Line {
  const std::string& path;
  std::size_t number;
  std::vector<std::string_view> columns;

  [[noreturn]] void fail(const std::string& problem) const {
    fail_data(path, "line " + std::to_string(number) + ": " + problem);
  }
  template <class Number>
  Number value(std::size_t column) const {
    Number parsed{};
    const std::string_view text = columns[column];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(static_cast<double>(parsed))) {
      fail(std::string("'") + core::printable(text) + "' in column " + std::to_string(column + 1) +
           " is not a number in its range.");
    }
    return parsed;
  }
  /// Rounded to single precision; tiny numbers become 0.
  float single(std::size_t column) const {
    const auto rounded = static_cast<float>(value<double>(column));
    if (!std::isfinite(rounded)) fail("the score is beyond single precision; scale the scores.");
    return rounded;
  }
};

/// Calls take(line) for each line that is not blank.
template <class Take>
void read_columns(const std::string& path, const std::string& form, std::size_t columns, Take take) {
  constexpr std::string_view blanks = " \t\r\v\f";
  const std::string text = core::read_text_file(path, max_bytes);
  Line line{path, 0, {}};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view content = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++line.number;
    line.columns.clear();
    for (std::size_t at = content.find_first_not_of(blanks); at != content.npos;) {
      const std::size_t stop = std::min(content.find_first_of(blanks, at), content.size());
      line.columns.push_back(content.substr(at, stop - at));
      at = content.find_first_not_of(blanks, stop);
    }
    if (line.columns.empty()) continue;
    if (line.columns.size() != columns) {
      line.fail("it has " + core::counted(static_cast<std::int64_t>(line.columns.size()), "column") + "; write '" +
                form + "'.");
    }
    take(line);
  }
}

std::map<std::string, Levels> read_judgements(const std::string& path) {
  std::map<std::string, Levels> judgements;
  read_columns(path, "query 0 document level", 4, [&](const Line& line) {
    const bool is_new =
        judgements[std::string(line.columns[0])].emplace(line.columns[2], line.value<std::int32_t>(3)).second;
    if (!is_new) line.fail("the query has a judgement of this document already; remove one.");
  });
  return judgements;
}

std::map<std::string, std::vector<Retrieved>> read_run(const std::string& path) {
  std::map<std::string, std::map<std::string, float>> run;
  read_columns(path, "query Q0 document rank score name", 6, [&](const Line& line) {
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
