// The sublayers of a model that differ in what they compute: of BERT's, attention and feed-forward, and those of the
// last block, which compute fewer rows, and those without a backward pass. What is measured of one sublayer holds for
// all others like it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/model/partition.hpp"

namespace bert_hpc::model {

struct DistinctSublayer {
  std::string name;                     ///< for messages: "attention", "the last block's feed-forward and the head"
  std::vector<std::int64_t> sublayers;  ///< those that are alike, ascending
};

/// In the order of a forward pass. The last sublayer is one of its own, as the head belongs to it.
std::vector<DistinctSublayer> distinct_sublayers(const ModelPlan& plan);

/// One sublayer, with the head if it is the last.
ModelRange range_of_sublayer(const ModelPlan& plan, std::int64_t sublayer);

}  // namespace bert_hpc::model
