// Internal to the module: which rows are candidates of one query, and what judgements say beyond the rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bert_hpc/prep/row_table.hpp"
#include "readers/qrels.hpp"

namespace bert_hpc::prep {

/// Whether files of rankings can have it as an id: it is not empty and holds no blank.
bool is_usable_id(std::string_view id);

class Queries {
 public:
  /// `config` must outlive it. Throws as Qrels does.
  explicit Queries(const PrepConfig& config);

  /// The query of a row: rows of one query have the same number. Ids of files that go into different splits have
  /// nothing to do with each other: copies of WikiQA give the same ids to other questions.
  std::uint64_t query_of(const SourceRow& row, const RowStream::File& file) const;
  /// The row's passage as a number that no passage of another query has.
  static std::uint64_t candidate_of(std::uint64_t query, const SourceRow& row);
  /// train where the row can be a candidate, else why not.
  RowStatus judge(std::uint64_t query, const SourceRow& row);
  /// The row is used.
  void keep(std::uint64_t query, const SourceRow& row);
  /// After all rows.
  void finish(RowTable& table) const;

 private:
  const PrepConfig& config_;
  bool has_ids_, has_query_ids_;
  std::unordered_map<std::uint64_t, std::uint64_t> texts_;  // hash of each query's text
  std::optional<Qrels> qrels_;
  std::unordered_set<std::uint64_t> judged_;                            // hashes of query and judgement, of candidates
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> kept_;  // hash of an id → its queries
};

/// Throws Error(input) where candidates of a query are in several splits. rows: those that [split] divides.
void require_whole_queries(const RowTable& table, const PrepConfig& config, std::int64_t rows);

}  // namespace bert_hpc::prep
