// Scaled dot-product attention on unpadded sequences: out = dropout(softmax(q·kᵀ/√head_dim))·v per sequence and head,
// without a score matrix in memory beyond one tile of rows; backward recomputes probabilities from the row's
// log-sum-exp (Dao et al., FlashAttention, 2022; FlashAttention-2, 2023).
//
// Queries may be a selection of a sequence's rows (only those that a head will read); keys and values are all its rows.
#pragma once

#include <memory>
#include <string>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/ops/dropout.hpp"

namespace bert_hpc::ops {

struct AttentionExtents {
  std::int64_t sequences = 0;
  std::int64_t heads = 0, head_dim = 0;  ///< hidden = heads · head_dim; head h is columns [h·head_dim, (h+1)·head_dim)
  std::int64_t max_length = 0;           ///< longest sequence of keys
  std::int64_t first_head = 0;           ///< number of head 0 in the layer, where ranks share heads out: for dropout
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual std::string name() const = 0;

  /// Allocates scratch for sequences up to this length; nothing is allocated afterwards. Returns bytes held.
  virtual std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim) = 0;

  /// Where forward keeps for backward which pairs dropout keeps: 64-bit words for each head and query row of sequences
  /// up to this length. 0: backward draws them again, and `kept` below stays empty.
  virtual std::int64_t dropout_tiles([[maybe_unused]] std::int64_t max_length,
                                     [[maybe_unused]] std::int64_t head_dim) const {
    return 0;
  }

  /// q (query rows, hidden), k and v (key rows, hidden), all with any row stride; out (query rows, hidden);
  /// log_sum_exp (heads, query rows) and, with dropout, kept (heads · dropout_tiles, query rows) are kept for backward.
  /// queries.offsets and keys.offsets are (sequences + 1).
  virtual void forward(const AttentionExtents& extents, const TokenRows& queries, const TokenRows& keys,
                       const Dropout& dropout, ConstMatrix q, ConstMatrix k, ConstMatrix v, Matrix out,
                       Tensor<float> log_sum_exp, Tensor<std::uint64_t> kept) = 0;

  /// d_q, d_k, d_v (replaced) from d_out; shapes as in forward.
  virtual void backward(const AttentionExtents& extents, const TokenRows& queries, const TokenRows& keys,
                        const Dropout& dropout, ConstMatrix q, ConstMatrix k, ConstMatrix v, ConstMatrix out,
                        Tensor<const float> log_sum_exp, Tensor<const std::uint64_t> kept, ConstMatrix d_out,
                        Matrix d_q, Matrix d_k, Matrix d_v) = 0;
};

/// For matrices of elements of this type; scores and probabilities are float. `kind`: "fused" (the fastest for this
/// build and processor), "fused-baseline" (the same without the processor's wider vectors; CPU builds, for tests),
/// "fused-split" (GPU builds, for tests and benchmarks: backward computes d_q in a kernel of its own at every length)
/// or "plain" (the portable reference). Throws Error(input) for any other.
std::unique_ptr<Attention> make_attention(const std::string& kind = "fused",
                                          core::DataType type = core::DataType::fp32);

}  // namespace bert_hpc::ops
