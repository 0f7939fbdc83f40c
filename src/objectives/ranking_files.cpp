#include "bert_hpc/objectives/ranking_files.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/score/ranking.hpp"

namespace bert_hpc::objectives {
namespace {

constexpr std::size_t most_ranks = 1000;  // of ms_marco_eval.py

/// Indices of a query's candidates by rank.
std::vector<std::size_t> ranking_of(const data::GroupTexts& query, std::span<const float> scores) {
  std::vector<score::RankedCandidate> candidates;
  // The level carries the index, as the order does not depend on it.
  for (std::size_t i = 0; i < scores.size(); ++i) {
    candidates.push_back({query.candidates[i], scores[i], static_cast<std::int64_t>(i)});
  }
  score::rank_candidates(candidates);
  std::vector<std::size_t> order;
  for (const score::RankedCandidate& one : candidates) order.push_back(static_cast<std::size_t>(one.level));
  return order;
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

/// How many passages are relevant to a query, candidates or not; -1 if the levels are not known.
std::int32_t relevant_to(const data::GroupTexts& query, std::span<const std::int32_t> levels) {
  if (levels.empty()) return -1;
  const auto found = std::count_if(levels.begin(), levels.end(), [](std::int32_t level) { return level > 0; });
  return static_cast<std::int32_t>(found + std::ssize(query.further_levels));
}

/// What predictions.h5 and predictions.csv say of the candidates of query `number`, in the order of the samples.
PredictedRows columns_of(const PredictionsFacts& facts, std::int32_t number, const data::GroupTexts& query,
                         std::span<const float> scores, std::span<const std::int32_t> levels,
                         const std::vector<std::size_t>& order) {
  PredictedRows rows = facts.predict({.rows = std::ssize(scores),
                                      .outputs = scores,
                                      .labels = {.outputs = 1, .levels = levels},
                                      .label_names = facts.label_names});
  std::vector<std::int32_t> ranks(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<std::int32_t>(i) + 1;
  rows.stored.push_back({"rank", ranks});
  rows.stored.push_back({"query", std::vector<std::int32_t>(scores.size(), number)});
  rows.stored.push_back({"relevant", std::vector<std::int32_t>(scores.size(), relevant_to(query, levels))});
  rows.shown.push_back({"rank", std::move(ranks)});
  rows.shown.insert(rows.shown.begin(), {{"query", std::vector<std::string>(scores.size(), query.id)},
                                         {"passage", std::vector<std::string>(query.candidates)}});
  return rows;
}

}  // namespace

std::string run_name(const std::string& directory) {
  std::filesystem::path path = std::filesystem::absolute(directory).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // behind a slash at the end
  std::string name = path.filename().string();
  for (char& c : name) {
    if (core::ascii_blanks.find(c) != std::string_view::npos) c = '_';
  }
  return name.empty() ? "bert_hpc" : name;
}

TrecRun::TrecRun(const std::string& directory) : name_(run_name(directory)), file_(directory + "/run.trec") {}

void TrecRun::add(std::string_view query, std::string_view document, std::int64_t rank, float score) {
  append_line(file_, {query, "Q0", document, std::to_string(rank), number_text(score), name_}, ' ');
  file_.write("\n");
}

RankingFiles::RankingFiles(const PredictionsFacts& facts, const data::ShardReader& reader, std::mutex& hdf5)
    : facts_(facts),
      reader_(reader),
      groups_(reader, hdf5),
      tables_(facts, reader, columns_of(facts, 0, {}, {}, {}, {}), hdf5),
      trec_(facts.directory),
      ranks_(facts.directory + "/predictions.tsv") {}

void RankingFiles::add(float score) {
  if (scores_.empty()) core::require(groups_.next(), "each sample is in a group");
  scores_.push_back(score);
  if (std::ssize(scores_) == groups_.end() - groups_.begin()) write_query();
}

void RankingFiles::write_query() {
  const std::span<const std::int32_t> all = reader_.levels();
  const auto levels = all.empty() ? all : all.subspan(static_cast<std::size_t>(groups_.begin()), scores_.size());
  const std::vector<std::size_t> order = ranking_of(groups_.group(), scores_);
  const auto number = static_cast<std::int32_t>(groups_.number());
  tables_.append(std::ssize(scores_), columns_of(facts_, number, groups_.group(), scores_, levels, order));
  write_ranks(order);
  scores_.clear();
}

/// run.trec and predictions.tsv. order: indices of the candidates, by rank.
void RankingFiles::write_ranks(const std::vector<std::size_t>& order) {
  const data::GroupTexts& query = groups_.group();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::string rank = std::to_string(i + 1);
    const std::string& id = query.candidates[order[i]];
    trec_.add(query.id, id, static_cast<std::int64_t>(i) + 1, scores_[order[i]]);
    if (i >= most_ranks) continue;
    append_line(ranks_, {query.id, id, rank}, '\t');
    ranks_.write("\n");
  }
}

void RankingFiles::close() {
  core::require(scores_.empty(), "all samples of all groups have scores");
  tables_.close();
  trec_.close();
  ranks_.close();
}

}  // namespace bert_hpc::objectives
