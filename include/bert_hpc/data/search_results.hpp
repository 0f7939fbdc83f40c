// What a search (mode "search") has found, in RUN/search.h5.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bert_hpc::data {

/// Names in the file.
namespace search_names {
inline constexpr const char *schema = "schema", *schema_value = "bert_hpc-search-1";
inline constexpr const char *similarity = "similarity", *query_data = "query_data_hash",
                            *corpus_data = "corpus_data_hash";
inline constexpr const char* queries = "/queries";        ///< int64 (queries): sequence of each
inline constexpr const char* neighbours = "/neighbours";  ///< int64 (queries, k): sequences of documents; −1: no more
inline constexpr const char* scores = "/scores";          ///< float32 (queries, k), falling; −∞: no more
/// float32 (queries): of the query and the second text of its row; NaN without one.
inline constexpr const char* own_scores = "/own_scores";
}  // namespace search_names

struct SearchResults {
  std::string query_data, corpus_data;  ///< hashes of the shards; "several" of several splits
  std::vector<std::int64_t> queries{}, neighbours{};
  std::vector<float> scores{}, own_scores{};
  std::int64_t k = 0;
};
/// Throws Error(data).
SearchResults read_search_results(const std::string& path);

}  // namespace bert_hpc::data
