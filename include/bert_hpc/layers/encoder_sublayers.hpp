// The sublayers of an encoder's block. The two of BERT's (Devlin et al. 2019), each a step of the residual stream with
//   attention     f(y) = attention(y)·Woᵀ,
//   feed-forward  f(y) = gelu(y·Wiᵀ + bi)·W2ᵀ, in GPT-2 with the gelu of tanh,
// and one of newer encoders,
//   with a gate   f(y) = (gelu(y·Wiᵀ) ∘ y·Wgᵀ)·W2ᵀ.
// To add a sublayer: a class that derives from Sublayer, its settings, and a function like these.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bert_hpc/layers/sublayer.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/epilogue.hpp"

namespace bert_hpc::layers {

/// A bias of attention's scores by distance (ops/position_bias.hpp) in T5's buckets: one parameter (heads, buckets) of
/// all blocks, which each block stores for itself.
struct PositionBiasSettings {
  std::string name;      ///< of the parameter in the first block; other blocks hold copies
  std::string in_block;  ///< of this block's copy
  std::int32_t buckets = 32, max_distance = 128;
};

/// Embeddings of distances (ops/relative_positions.hpp) in DeBERTa-v2's buckets: one table (2·span, hidden) and its
/// layer norm of all blocks, which each block stores for itself. The block's query and key layers make queries and keys
/// of them.
struct RelativePositionSettings {
  std::string table, norm;                    ///< names in the first block; other blocks hold copies
  std::string table_in_block, norm_in_block;  ///< of this block's copies
  std::int32_t span = 256, max_distance = 512;
};

struct AttentionSettings {
  std::string query = "query", key = "key", value = "value";  ///< names of the first products
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;  ///< of keys and values, each of which heads / key_heads heads share; 0: heads
  float dropout = 0.1f;        ///< of attention's weights
  ops::AttentionMask mask{};
  double rotary_theta = 0;  ///< queries and keys are rotated by their positions (ops/rotary.hpp); 0: they are not
  std::optional<PositionBiasSettings> position_bias{};
  std::optional<RelativePositionSettings> relative_positions{};

  /// Number of heads that share one of keys and values.
  std::int64_t sharing() const { return key_heads > 0 ? heads / key_heads : 1; }
};

struct FeedForwardSettings {
  std::string intermediate = "intermediate";  ///< name of the first product
  std::int64_t intermediate_size = 0;
  ops::Activation activation = ops::Activation::gelu;  ///< gelu or gelu_tanh
};

struct GatedFeedForwardSettings {
  std::string intermediate = "intermediate", gate = "gate";  ///< names of the first products
  std::int64_t intermediate_size = 0;
  ops::Activation activation = ops::Activation::gelu;
};

/// Query, key and value weights follow one another, as do their biases, so that one product computes all three.
std::shared_ptr<const SublayerKind> attention_sublayer(AttentionSettings settings);
std::shared_ptr<const SublayerKind> feed_forward_sublayer(FeedForwardSettings settings);
/// The weights of its first products follow one another, as do their biases.
std::shared_ptr<const SublayerKind> gated_feed_forward_sublayer(GatedFeedForwardSettings settings);

}  // namespace bert_hpc::layers
