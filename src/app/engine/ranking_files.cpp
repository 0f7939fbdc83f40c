#include "bert_hpc/app/engine/ranking_files.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <numeric>

#include "bert_hpc/data/group_data.hpp"
#include "bert_hpc/io/predictions.hpp"
#include "bert_hpc/io/predictions_csv.hpp"
#include "bert_hpc/io/text_file.hpp"
#include "bert_hpc/score/ranking.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::size_t most_ranks = 1000;           // of ms_marco_eval.py
constexpr std::string_view run_name = "bert_hpc";  // the last column of run.trec

/// Of a query: places of its candidates by rank.
std::vector<std::size_t> ranking_of(const data::GroupTexts& query, std::span<const float> scores) {
  std::vector<score::RankedCandidate> candidates;
  // The place goes along as the level, which the order does not depend on.
  for (std::size_t i = 0; i < scores.size(); ++i) {
    candidates.push_back({query.candidates[i], scores[i], static_cast<std::int64_t>(i)});
  }
  score::rank_candidates(candidates);
  std::vector<std::size_t> places;
  for (const score::RankedCandidate& one : candidates) places.push_back(static_cast<std::size_t>(one.level));
  return places;
}

/// The shortest digits that read back as the same float.
std::string number_text(float number) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

void append_line(io::TextFile& file, std::initializer_list<std::string_view> columns, char separator) {
  bool is_first = true;
  for (const std::string_view column : columns) {
    if (!is_first) file.write(std::string_view(&separator, 1));
    file.write(column);
    is_first = false;
  }
}

/// run.trec and predictions.tsv.
class RunFiles {
 public:
  explicit RunFiles(const std::string& directory)
      : trec_(directory + "/run.trec"), ranks_(directory + "/predictions.tsv") {}

  void append(const data::GroupTexts& query, std::span<const float> scores, const std::vector<std::size_t>& places) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::string rank = std::to_string(i + 1);
      const std::string& id = query.candidates[places[i]];
      append_line(trec_, {query.id, "Q0", id, rank, ""}, ' ');
      trec_.write(number_text(scores[places[i]]));
      append_line(trec_, {"", run_name}, ' ');
      trec_.write("\n");
      if (i >= most_ranks) continue;
      append_line(ranks_, {query.id, id, rank}, '\t');
      ranks_.write("\n");
    }
  }
  void close() {
    trec_.close();
    ranks_.close();
  }

 private:
  io::TextFile trec_, ranks_;
};

/// How many passages are relevant to a query, candidates or not; -1 where the levels are not known.
std::int32_t relevant_to(const data::GroupTexts& query, std::span<const std::int32_t> levels) {
  if (levels.empty()) return -1;
  const auto found = std::count_if(levels.begin(), levels.end(), [](std::int32_t level) { return level > 0; });
  return static_cast<std::int32_t>(found + std::ssize(query.further_levels));
}

/// What predictions.h5 and predictions.csv say of the candidates of query `number`, in the order of the samples.
objectives::PredictedRows columns_of(const PredictionsFacts& facts, std::int32_t number, const data::GroupTexts& query,
                                     std::span<const float> scores, std::span<const std::int32_t> levels,
                                     const std::vector<std::size_t>& places) {
  objectives::PredictedRows rows = facts.objective.predict({.rows = std::ssize(scores),
                                                            .outputs = scores,
                                                            .labels = {.outputs = 1, .levels = levels},
                                                            .label_names = facts.label_names});
  std::vector<std::int32_t> ranks(scores.size());
  for (std::size_t i = 0; i < places.size(); ++i) ranks[places[i]] = static_cast<std::int32_t>(i) + 1;
  rows.stored.push_back({"rank", ranks});
  rows.stored.push_back({"query", std::vector<std::int32_t>(scores.size(), number)});
  rows.stored.push_back({"relevant", std::vector<std::int32_t>(scores.size(), relevant_to(query, levels))});
  rows.shown.push_back({"rank", std::move(ranks)});
  rows.shown.insert(rows.shown.begin(), {{"query", std::vector<std::string>(scores.size(), query.id)},
                                         {"passage", std::vector<std::string>(query.candidates)}});
  return rows;
}

}  // namespace

void write_rankings(const std::string& directory, const PredictionsFacts& facts, const Predictions& predictions,
                    const data::ShardReader& reader) {
  io::PredictionsInfo info;
  info.task = facts.objective.task->name;
  info.attributes = {{"split", facts.split}};
  if (!reader.info().label_column.empty()) info.attributes.emplace_back("label_column", reader.info().label_column);
  const objectives::PredictedRows columns = columns_of(facts, 0, {}, {}, {}, {});
  io::PredictionsWriter file(directory + "/predictions.h5", info, columns.stored);
  io::PredictionsCsv table(directory + "/predictions.csv", columns.shown);
  RunFiles run(directory);
  std::mutex held;  // the lock of HDF5 is the caller's
  data::GroupReader groups(reader, held);
  for (std::int32_t number = 0; groups.next(); ++number) {
    const auto begin = static_cast<std::size_t>(groups.begin()),
               count = static_cast<std::size_t>(groups.end() - groups.begin());
    const auto scores = std::span(predictions.logits).subspan(begin, count);
    const auto levels = reader.levels().empty() ? reader.levels() : reader.levels().subspan(begin, count);
    const std::vector<std::size_t> places = ranking_of(groups.group(), scores);
    const objectives::PredictedRows rows = columns_of(facts, number, groups.group(), scores, levels, places);
    file.append(reader.source_index().subspan(begin, count), rows.stored);
    table.append(reader.source_index().subspan(begin, count), rows.shown);
    run.append(groups.group(), scores, places);
  }
  file.close();
  table.close();
  run.close();
}

}  // namespace bert_hpc::app
