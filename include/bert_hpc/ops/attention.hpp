// Scaled dot-product attention on unpadded sequences: out = dropout(softmax(q·kᵀ/√head_dim + bias))·v per sequence and
// head, without a score matrix in memory beyond one tile of rows; backward recomputes probabilities from the row's
// log-sum-exp (Dao et al., FlashAttention, 2022; FlashAttention-2, 2023).
//
// Queries may be a selection of a sequence's rows (only those that a head will read); keys and values are all its rows.
// A mask limits the keys of a query by their positions; tiles of pairs outside it are not computed. Padded keys have
// weight 0, although some kernels compute their pairs. Scores may depend on the distance too (position_bias.hpp,
// relative_positions.hpp).
#pragma once

#include <cmath>
#include <memory>
#include <string>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/position_bias.hpp"
#include "bert_hpc/ops/relative_positions.hpp"

namespace bert_hpc::ops {

struct AttentionExtents {
  std::int64_t sequences = 0;
  std::int64_t heads = 0, head_dim = 0;  ///< hidden = heads · head_dim; head h is columns [h·head_dim, (h+1)·head_dim)
  std::int64_t max_length = 0;           ///< longest sequence of keys
  std::int64_t first_head = 0;           ///< number of head 0 in the layer, where ranks share heads out: for dropout
};

/// Keys of its sequence that a query attends to: those at most `before` positions before its own and `after` positions
/// behind it. A query behind all of these, which is padding, attends to the last real key. If the mask is limited, the
/// positions of queries ascend within a sequence.
struct AttentionMask {
  static constexpr std::int32_t unlimited = 1 << 30;  ///< beyond every length, and a position can be added to it

  std::int32_t before = unlimited, after = unlimited;

  static constexpr AttentionMask full() { return {}; }
  static constexpr AttentionMask causal() { return {unlimited, 0}; }
  /// Local attention: keys at most `reach` positions away.
  static constexpr AttentionMask window(std::int32_t reach) { return {reach, reach}; }

  constexpr bool operator==(const AttentionMask&) const = default;
  constexpr bool is_limited() const { return before != unlimited || after != unlimited; }
  /// The same mask for sequences up to this length, without limits that none of them reaches.
  constexpr AttentionMask within(std::int64_t length) const {
    return {before >= length - 1 ? unlimited : before, after >= length - 1 ? unlimited : after};
  }

  /// The first key of a query at this position in a sequence of so many real keys, and the end of its keys.
  BERT_HPC_DEVICE std::int64_t begin(std::int64_t position, std::int64_t real) const {
    const std::int64_t first = position - before < real - 1 ? position - before : real - 1;
    return first > 0 ? first : 0;
  }
  BERT_HPC_DEVICE std::int64_t end(std::int64_t position, std::int64_t length) const {
    return position + after + 1 < length ? position + after + 1 : length;
  }
};

/// Number of the `pairs` of `rows` queries with all tokens of their sequences that the mask leaves: exact for full and
/// causal masks if the queries are all tokens, and for windows if the sequences have one length; an average otherwise.
double masked_pairs(const AttentionMask& mask, double pairs, double rows);

struct AttentionInputs {
  AttentionExtents extents;
  TokenRows queries, keys;  ///< queries.offsets and keys.offsets are (sequences + 1)
  Dropout dropout;
  ConstMatrix q, k, v;  ///< q (query rows, hidden), k and v (key rows, hidden), all with any row stride
  AttentionMask mask{};
  /// (sequences): how many keys of each sequence are real, at least 1; those after them have weight 0 and gradients 0.
  /// Null: all.
  const std::int32_t* real_keys = nullptr;
  PositionBias bias{};
  RelativePositions relative{};

  /// Factor of scores: 1 / √head_dim, or with relative positions 1 / √(3·head_dim).
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(extents.head_dim) * (relative.any() ? 3.0 : 1.0)); }
};

/// What forward writes and backward reads.
struct AttentionResults {
  Matrix out;                  ///< (query rows, hidden)
  Tensor<float> log_sum_exp;   ///< (heads, query rows)
  Tensor<std::uint64_t> kept;  ///< with dropout (heads · dropout_tiles, query rows), else empty
};

/// Work of a kernel that computes so many of the formula's products over the mask's pairs of query and key (two
/// forward, five backward) and reads or writes so many matrices like the queries and like the keys. What it computes
/// again is not counted.
inline core::CallWork attention_work(const AttentionInputs& in, int products, int like_queries, int like_keys) {
  const auto width = static_cast<double>(in.extents.heads * in.extents.head_dim);
  const auto rows = static_cast<double>(like_queries * in.queries.count + like_keys * in.keys.count);
  const double pairs = masked_pairs(in.mask, in.queries.pairs, static_cast<double>(in.queries.count));
  return {2.0 * products * width * pairs, static_cast<double>(core::bytes_of(in.q.type)) * width * rows};
}

struct AttentionGradients {
  Matrix d_q, d_k, d_v;    ///< shaped as q, k and v
  Tensor<float> d_bias{};  ///< (heads, 2 · key rows): sums of the scores' gradients by distance_slot(); may be empty
  /// (2 · key rows, hidden): gradients of the relative positions' rows for each distance of each sequence, in the row
  /// distance_slot(); the other rows are zeros. Both may be empty.
  Tensor<float> d_relative_keys{}, d_relative_queries{};
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual std::string name() const = 0;

  /// Allocates scratch for sequences up to this length; nothing is allocated afterwards. Returns bytes held.
  /// `relative`: for inputs with relative positions, else for those without.
  virtual std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim, bool relative = false) = 0;

  /// Size of the dropout mask that forward keeps for backward: 64-bit words for each head and query row of sequences
  /// up to this length. 0: backward draws them again, and `kept` below stays empty.
  virtual std::int64_t dropout_tiles([[maybe_unused]] std::int64_t max_length,
                                     [[maybe_unused]] std::int64_t head_dim) const {
    return 0;
  }

  virtual void forward(const AttentionInputs& inputs, const AttentionResults& results) = 0;

  /// Replaces the gradients. d_out (query rows, hidden).
  virtual void backward(const AttentionInputs& inputs, const AttentionResults& results, ConstMatrix d_out,
                        const AttentionGradients& gradients) = 0;
};

/// For matrices of elements of this type; scores and probabilities are float. `tf32`: GPUs round the factors of fp32
/// products to TF32 numbers of 11 significant bits; otherwise fp32 products are as exact as fp32 sums of them. `kind`:
/// "fused" (the fastest for this build and processor), "fused-baseline" (the same without the processor's wider
/// vectors; CPU builds, for tests), "fused-split" (GPU builds, for tests and benchmarks: backward computes d_q in a
/// kernel of its own at every length), "plain" (as programs without a fused kernel compute it: matrix products and
/// scores in memory; in GPU builds the portable one) or "portable" (the reference, a work item a row). Throws
/// Error(input) for any other.
std::unique_ptr<Attention> make_attention(const std::string& kind = "fused", core::DataType type = core::DataType::fp32,
                                          bool tf32 = false);

}  // namespace bert_hpc::ops
