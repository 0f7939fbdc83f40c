// Hashes of 64 bits stand for queries and passages: among 10 million, two are taken for one with a probability of 3e-6.
#include "queries.hpp"

#include <algorithm>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::prep {
bool is_usable_id(std::string_view id) {
  return !id.empty() && id.find_first_of(core::ascii_blanks) == std::string_view::npos;
}

Queries::Queries(const PrepConfig& config)
    : config_(config), has_ids_(!config.source.id.empty()), has_query_ids_(!config.source.query_id.empty()) {
  if (!config.source.qrels.empty()) qrels_.emplace(config.source.qrels);
}

std::uint64_t Queries::query_of(const SourceRow& row, const RowStream::File& file) const {
  const double fractions[split_count] = {config_.split.train, config_.split.validation, config_.split.test};
  const auto split = static_cast<std::size_t>(file.split);
  // Rows that [split] divides may meet those of a file that goes whole into one of their splits.
  const bool meets = file.is_divided || (!config_.source.files.empty() && fractions[split] > 0);
  const std::uint64_t files = row.own_query ? row.file + split_count + 1 : meets ? 0 : split + 1;
  return core::mix64(core::fnv1a_64(row.query) ^ core::mix64(files));
}

std::uint64_t Queries::candidate_of(std::uint64_t query, const SourceRow& row) {
  return core::mix64(query ^ core::mix64(core::fnv1a_64(row.id)));
}

RowStatus Queries::judge(std::uint64_t query, const SourceRow& row) {
  if ((has_query_ids_ && !is_usable_id(row.query)) || (has_ids_ && !is_usable_id(row.id)))
    return RowStatus::unusable_id;
  const std::uint64_t text = core::fnv1a_64(row.text);
  if (has_query_ids_ && texts_.try_emplace(query, text).first->second != text) return RowStatus::other_query;
  return RowStatus::train;
}

void Queries::keep(std::uint64_t query, const SourceRow& row) {
  if (!qrels_ || row.own_query) return;
  std::vector<std::uint64_t>& queries = kept_[core::fnv1a_64(row.query)];
  if (std::find(queries.begin(), queries.end(), query) == queries.end()) queries.push_back(query);
  if (const auto index = qrels_->find(row.query, row.id)) judged_.insert(core::mix64(query + *index));
}

void Queries::finish(RowTable& table) const {
  if (!qrels_) return;
  std::unordered_set<std::uint64_t> absent;
  for (std::size_t i = 0; i < qrels_->all().size(); ++i) {
    const Judgement& judgement = qrels_->all()[i];
    if (judgement.level == 0) continue;
    const auto queries = kept_.find(judgement.query);
    if (queries == kept_.end()) {
      if (absent.insert(judgement.query).second && absent.size() == 1) {
        table.first_absent = qrels_->file() + ", line " + std::to_string(judgement.line);
      }
      continue;
    }
    for (const std::uint64_t query : queries->second) {
      if (!judged_.contains(core::mix64(query + i))) table.further_levels[query].push_back(judgement.level);
    }
  }
  table.absent_queries = std::ssize(absent);
}

void require_whole_queries(const RowTable& table, const PrepConfig& config, std::int64_t rows) {
  std::unordered_map<std::uint64_t, RowStatus> splits;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    if (!is_kept(table.status[row])) continue;
    if (splits.try_emplace(table.queries[row], table.status[row]).first->second == table.status[row]) continue;
    throw core::Error(core::ExitCode::input,
                      "[split] group = \"" + core::printable(config.split.group, 60) +
                          "\" parts the candidates of a query, which must be in one split: row " +
                          std::to_string(row + 1) + " of [source] files is in " +
                          to_string(static_cast<Split>(table.status[row])) + ", an earlier one of its query in " +
                          to_string(static_cast<Split>(splits.at(table.queries[row]))) +
                          ". Leave group out, or name a column that all candidates of a query share.");
  }
}

}  // namespace bert_hpc::prep
