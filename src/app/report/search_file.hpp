// RUN/search.h5: what a search has found, for bert_hpc_prep, which mines negatives from it, and for analyses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/engine/corpus_search.hpp"

namespace bert_hpc::app {

struct SearchFacts {
  std::string similarity;
  /// Hashes of the shards that were embedded; "several" if the files are of more than one split.
  std::string query_data, corpus_data;
};

/// Writes the file: numbers of sequences among those of the embeddings, `queries` of each query and (queries, top_k)
/// of its documents, −1 behind the last one; their scores; and of each query the score of the second text of its row,
/// NaN without one. Throws Error(files).
void write_search_file(const std::string& path, const SearchFacts& facts, std::span<const std::int64_t> queries,
                       std::span<const std::int64_t> documents, const FoundDocuments& found,
                       std::span<const float> own_scores);

}  // namespace bert_hpc::app
