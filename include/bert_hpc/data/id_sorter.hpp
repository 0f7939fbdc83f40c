// Sorts a micro-batch's token ids for the embedding's gradient: a stable radix sort of (id, row), so that the rows of
// an id stay ascending and sums over them have one order. Its time does not depend on the vocabulary's size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bert_hpc::data {

class IdSorter {
 public:
  /// For up to max_tokens ids in [0, vocabulary_size).
  IdSorter(std::int64_t max_tokens, std::int64_t vocabulary_size);

  /// input_ids (tokens) → ids (≤ tokens), the distinct ones ascending; segments (distinct + 1) and order (tokens): the
  /// rows of ids[u] are order[segments[u] … segments[u + 1]). Returns the number of distinct ids. Does not allocate.
  std::int64_t sort(std::span<const std::int32_t> input_ids, std::int32_t* ids, std::int32_t* segments,
                    std::int32_t* order);

 private:
  int passes_ = 1;
  int digit_bits_ = 8;
  std::vector<std::int32_t> counts_;             // (2^digit_bits)
  std::vector<std::uint64_t> entries_, sorted_;  // (max_tokens): id · 2^32 + row
};

}  // namespace bert_hpc::data
