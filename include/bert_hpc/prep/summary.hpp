// What a run of bert_hpc_prep has done.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/row_stream.hpp"
#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

struct SplitSummary {
  std::int64_t sequences = 0, tokens = 0, longest = 0, shards = 0;
  std::int64_t queries = 0, answerable = 0;  ///< of candidates: all, and those with a relevant candidate
};

/// Counts of rows that are kept.
struct TokenCounts {
  std::int64_t text_bytes = 0, tokens = 0, unknown = 0;
  std::int64_t truncated = 0;         ///< rows that lost tokens
  std::int64_t cut_into_windows = 0;  ///< rows of several sequences
};

struct Summary {
  std::int64_t rows = 0;
  std::int64_t skipped_lines = 0;  ///< see RowTable
  TokenCounts tokens;
  std::array<std::int64_t, row_status_count> by_status{};
  std::array<SplitSummary, split_count> splits;
  std::array<AnswerCounts, split_count> answers{};
  std::vector<std::pair<std::string, std::int64_t>> labels, unlisted_labels;  ///< with their rows
  std::array<std::string, row_status_count> first_rejects{};                  ///< see RowTable
  std::int32_t vocabulary_size = 0;
  double seconds = 0, tokenize_seconds = 0;
};

/// The lines printed at the end.
std::string describe(const Summary& summary, const PrepConfig& config);

}  // namespace bert_hpc::prep
