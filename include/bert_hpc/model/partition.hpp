// How a model is cut into the stages of a pipeline: contiguous ranges of its blocks, the embeddings with the first, the
// head with the last. Arithmetic only; the same on every rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/model/bert_config.hpp"

namespace bert_hpc::model {

using HeadKind = layers::HeadSettings::Kind;

/// Blocks [first, last) and what stands around them.
struct BlockRange {
  std::int64_t first = 0, last = 0;
  bool embeddings = true, head = true;
  /// masked_lm with both embeddings and head: the decoder is a parameter of its own, a copy of the word embeddings, so
  /// that the gradients of the two uses are summed apart, as they are where the two lie in different stages.
  bool decoder_apart = false;

  std::int64_t blocks() const { return last - first; }
  bool operator==(const BlockRange&) const = default;
};

/// The model in one stage.
BlockRange whole(const BertConfig& config);

/// What a step costs, in units of one block's floating-point operations, for sequences of this many tokens.
struct StageCosts {
  double embeddings = 0, head = 0;
};
StageCosts stage_costs(const BertConfig& config, HeadKind kind, double mean_length);

/// What a part of the model costs on the ranks that hold it, in any unit: each block, and all else (less than nothing
/// where the last block is cheaper than others).
struct PartCosts {
  double block = 1, extra = 0;
};

/// How many of `blocks` each part holds, one or more: the cut whose dearest part is the cheapest; of those, the one
/// with the most blocks in the first parts. There are no more parts than blocks.
std::vector<std::int64_t> balanced_counts(std::int64_t blocks, std::span<const PartCosts> parts);

/// `stages` ranges, none empty, in the order of a forward pass. `balance`: blocks of each stage, summing to the blocks;
/// empty: the cut whose slowest stage is the fastest by `costs` (of those, the one with the most blocks in the first
/// stages). Throws Error(input) on more stages than blocks and on a balance that does not fit, naming one that would.
std::vector<BlockRange> partition(const BertConfig& config, int stages, std::span<const std::int64_t> balance,
                                  const StageCosts& costs);

}  // namespace bert_hpc::model
