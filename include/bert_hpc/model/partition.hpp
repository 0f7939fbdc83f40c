// How a model is cut into the stages of a pipeline: contiguous ranges of the sublayers, the embeddings with the first,
// the head with the last. What goes from one sublayer to the next is as large wherever the cut lies, except after the
// attention that selects rows: only those that the head reads follow it. Users count in blocks.
// Arithmetic only; the same on every rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/model/model_plan.hpp"

namespace bert_hpc::model {

/// Sublayers [first, last) of the blocks and what stands around them.
struct ModelRange {
  std::int64_t first = 0, last = 0;
  bool embeddings = true, head = true;
  /// A tied decoder with both embeddings and head: the decoder is a parameter of its own, a copy of the word
  /// embeddings, so that the gradients of the two uses are summed separately, as they are where the two lie in
  /// different stages.
  bool separate_decoder = false;
  /// Without embeddings: is the gradient at its input needed? Not where everything below is frozen.
  bool sends_gradient = true;

  std::int64_t sublayers() const { return last - first; }
  bool operator==(const ModelRange&) const = default;
};

/// The model in one stage.
ModelRange whole(const ModelPlan& plan);
ModelRange whole(const ModelConfig& config);

/// What the parts of a model cost, in any unit.
struct ModelCosts {
  double embeddings = 0;
  std::vector<double> sublayers{};  ///< (sublayers); the last one's includes the head

  /// Seconds of sublayers [first, last), with the embeddings if they are at the begin.
  double of(std::int64_t first, std::int64_t last) const;
};
/// A model whose sublayers cost the same, its embeddings and head nothing.
ModelCosts equal_costs(std::int64_t sublayers);

/// How many of a model's sublayers each part holds, one or more, where parts[p] states what the model costs on the
/// ranks that hold part p: the cut whose bottleneck costs least; of those, the one with the most in the first parts.
/// There are no more parts than sublayers.
std::vector<std::int64_t> balanced_counts(std::span<const ModelCosts> parts);

/// `stages` ranges, none empty, in the order of a forward pass. `balance`: sublayers of each stage, summing to the
/// model's; empty: balanced by `costs`. Throws Error(input) on more stages than sublayers and on a balance that does
/// not fit, naming one that would.
std::vector<ModelRange> partition(int stages, std::span<const std::int64_t> balance, const ModelCosts& costs);

/// The ranges of parts that hold these numbers of sublayers, in the order of a forward pass; together the whole model.
std::vector<ModelRange> ranges_of(std::span<const std::int64_t> balance);

/// From numbers of blocks, perhaps with parts of one, as inputs give them; and back, as text: "[4.5, 3.5]".
std::vector<std::int64_t> in_sublayers(std::span<const double> blocks, std::int64_t sublayers_of_block);
std::string balance_text(std::span<const std::int64_t> sublayers, std::int64_t sublayers_of_block);

/// Sublayers [first, last) in words: "0-3", "4", "0-3, attention of 4", "feed-forward of 4, 5-7".
std::string blocks_text(const ModelPlan& plan, std::int64_t first, std::int64_t last);

}  // namespace bert_hpc::model
