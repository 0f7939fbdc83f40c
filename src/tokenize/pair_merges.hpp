// The training of BPE and WordPiece vocabularies: pairs of neighbouring pieces are merged, the most frequent first, of
// equally frequent ones the one of older pieces. Internal to the module.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace bert_hpc::tokenize {

struct TrainingWord {
  std::vector<std::int32_t> pieces;  ///< by number; -1: one that is merged with no neighbour
  std::int64_t count;
};

/// Merges while `has_room()` and there are pairs. join(left, right) gives the number of the piece that a pair becomes,
/// once for each pair that is merged.
void merge_pairs(std::vector<TrainingWord> words, const std::function<bool()>& has_room,
                 const std::function<std::int32_t(std::int32_t left, std::int32_t right)>& join);

}  // namespace bert_hpc::tokenize
