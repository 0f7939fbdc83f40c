// How a model is cut into the stages of a pipeline: contiguous ranges of the sublayers, the embeddings with
// the first, the head with the last. Sublayer 2b is the attention of block b, sublayer 2b + 1 its feed-forward; what
// goes from one sublayer to the next is as large wherever the cut lies, but behind the attention of the last block,
// where only the rows that the head reads go on. Arithmetic only; the same on every rank.
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
  /// embeddings, so that the gradients of the two uses are summed apart, as they are where the two lie in different
  /// stages.
  bool decoder_apart = false;

  std::int64_t sublayers() const { return last - first; }
  bool operator==(const ModelRange&) const = default;
};

/// The model in one stage.
ModelRange whole(const ModelConfig& config);

/// Does this sublayer compute only the rows that the head reads? The last block's do.
inline bool computes_selection(const ModelConfig& config, std::int64_t sublayer) {
  return sublayer + 2 >= 2 * config.num_hidden_layers;
}
/// And is it given nothing but those? What stands behind the last attention is.
inline bool receives_selection(const ModelConfig& config, std::int64_t sublayer) {
  return sublayer + 1 >= 2 * config.num_hidden_layers;
}

/// What the pieces of a model cost, in any unit.
struct ModelCosts {
  double embeddings = 0, attention = 1, feed_forward = 1;
  double last_attention = 1, last = 1;  ///< of the last block; `last`: its feed-forward and the head

  /// Of sublayers [first, last) of a model of `sublayers`, with the embeddings and the head where they are at its ends.
  double of(std::int64_t first, std::int64_t last_sublayer, std::int64_t sublayers) const;
};

/// How many of a model's `sublayers` each part holds, one or more, where parts[p] says what the model costs on the
/// ranks that hold part p: the cut whose dearest part is the cheapest; of those, the one with the most in the first
/// parts. There are no more parts than sublayers, an even number.
std::vector<std::int64_t> balanced_counts(std::int64_t sublayers, std::span<const ModelCosts> parts);

/// `stages` ranges, none empty, in the order of a forward pass. `balance`: sublayers of each stage, summing to the
/// model's; empty: balanced by `costs`. Throws Error(input) on more stages than sublayers and on a balance that does
/// not fit, naming one that would.
std::vector<ModelRange> partition(const ModelConfig& config, int stages, std::span<const std::int64_t> balance,
                                  const ModelCosts& costs);

/// From numbers of blocks, multiples of a half, as inputs give them; and back, as text: "[4.5, 3.5]".
std::vector<std::int64_t> in_sublayers(std::span<const double> blocks);
std::string balance_text(std::span<const std::int64_t> sublayers);

/// Sublayers [first, last) in words: "0-3", "4", "0-3, attention of 4", "feed-forward of 4, 5-7".
std::string blocks_text(std::int64_t first, std::int64_t last);

}  // namespace bert_hpc::model
