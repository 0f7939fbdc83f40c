// The choice of an attention implementation, and the portable one ("plain"), which is the reference for the others: a
// work item is one row of one head, scores are recomputed instead of stored, nothing is shared between items.
#include "bert_hpc/ops/attention.hpp"

#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "cpu/fused_attention.hpp"
#include "kernel.hpp"

namespace bert_hpc::ops {
namespace {

/// What every kernel of one call reads.
struct Problem {
  AttentionExtents extents;
  TokenRows queries, keys;
  Dropout dropout;
  std::uint32_t threshold;
  float drop_scale;             // 1 / P(keep)
  float scale;                  // 1 / √head_dim
  Tensor<const float> q, k, v;  // (query rows, hidden), (key rows, hidden), (key rows, hidden)

  KOKKOS_INLINE_FUNCTION float dot(const float* a, const float* b) const {
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (std::int64_t j = 0; j < extents.head_dim; ++j) total += a[j] * b[j];
    return total;
  }

  KOKKOS_INLINE_FUNCTION void add_scaled(float factor, const float* x, float* y) const {
#pragma omp simd
    for (std::int64_t j = 0; j < extents.head_dim; ++j) y[j] += factor * x[j];
  }

  KOKKOS_INLINE_FUNCTION float score(std::int64_t query, std::int64_t key, std::int64_t column) const {
    return scale * dot(q.row(query) + column, k.row(key) + column);
  }

  /// keep / P(keep) of the element (query row, key position) of a head.
  KOKKOS_INLINE_FUNCTION float kept(std::int64_t sequence, std::int64_t head, std::int64_t query,
                                    std::int64_t key_position) const {
    if (threshold == 0) return 1.0f;
    const std::uint32_t row = static_cast<std::uint32_t>(((extents.first_head + head) << 20) + queries.position[query]);
    const core::Philox4 bits =
        dropout_bits(dropout, dropout.sample[sequence], row, static_cast<std::uint32_t>(key_position / 8));
    return dropout_keeps(bits, static_cast<int>(key_position % 8), threshold) ? drop_scale : 0.0f;
  }
};

Problem make_problem(const AttentionExtents& extents, const TokenRows& queries, const TokenRows& keys,
                     const Dropout& dropout, Tensor<const float> q, Tensor<const float> k, Tensor<const float> v) {
  const std::uint32_t threshold = dropout_threshold(dropout.probability);
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(extents.head_dim)));
  return {extents, queries, keys, dropout, threshold, dropout_scale(threshold), scale, q, k, v};
}

class PlainAttention : public Attention {
 public:
  std::string name() const override { return "plain"; }
  std::int64_t reserve(std::int64_t, std::int64_t) override { return 0; }

  void forward(const AttentionExtents& extents, const TokenRows& queries, const TokenRows& keys, const Dropout& dropout,
               Tensor<const float> q, Tensor<const float> k, Tensor<const float> v, Tensor<float> out,
               Tensor<float> log_sum_exp) override;

  void backward(const AttentionExtents& extents, const TokenRows& queries, const TokenRows& keys,
                const Dropout& dropout, Tensor<const float> q, Tensor<const float> k, Tensor<const float> v,
                Tensor<const float> out, Tensor<const float> log_sum_exp, Tensor<const float> d_out, Tensor<float> d_q,
                Tensor<float> d_k, Tensor<float> d_v) override;
};

// s_j = q·k_j / √d,  lse = log Σ_j exp(s_j),  out = Σ_j kept_j · exp(s_j − lse) · v_j
void PlainAttention::forward(const AttentionExtents& extents, const TokenRows& queries, const TokenRows& keys,
                             const Dropout& dropout, Tensor<const float> q, Tensor<const float> k,
                             Tensor<const float> v, Tensor<float> out, Tensor<float> log_sum_exp) {
  const Problem p = make_problem(extents, queries, keys, dropout, q, k, v);
  kernel::for_items(
      "bert_hpc::ops::attention_forward", queries.count * extents.heads, KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t i = item / p.extents.heads, head = item % p.extents.heads;
        const std::int64_t sequence = p.queries.sequence[i], column = head * p.extents.head_dim;
        const std::int64_t begin = p.keys.offsets[sequence], end = p.keys.offsets[sequence + 1];
        float largest = p.score(i, begin, column), total = 0.0f;
        for (std::int64_t j = begin; j < end; ++j) {  // the running maximum rescales the sum when it grows
          const float s = p.score(i, j, column);
          if (s > largest) {
            total *= std::exp(largest - s);
            largest = s;
          }
          total += std::exp(s - largest);
        }
        const float lse = largest + std::log(total);
        log_sum_exp(head, i) = lse;
        float* row = out.row(i) + column;
        for (std::int64_t c = 0; c < p.extents.head_dim; ++c) row[c] = 0.0f;
        for (std::int64_t j = begin; j < end; ++j) {
          const float probability = std::exp(p.score(i, j, column) - lse) * p.kept(sequence, head, i, j - begin);
          p.add_scaled(probability, v.row(j) + column, row);
        }
      });
}

// With p_ij = exp(s_ij − lse_i), D_i = d_out_i · out_i and ds_ij = p_ij · (kept_ij · d_out_i · v_j − D_i):
// d_q_i = Σ_j ds_ij · k_j / √d,  d_k_j = Σ_i ds_ij · q_i / √d,  d_v_j = Σ_i kept_ij · p_ij · d_out_i
void PlainAttention::backward(const AttentionExtents& extents, const TokenRows& queries, const TokenRows& keys,
                              const Dropout& dropout, Tensor<const float> q, Tensor<const float> k,
                              Tensor<const float> v, Tensor<const float> out, Tensor<const float> log_sum_exp,
                              Tensor<const float> d_out, Tensor<float> d_q, Tensor<float> d_k, Tensor<float> d_v) {
  const Problem p = make_problem(extents, queries, keys, dropout, q, k, v);
  kernel::for_items(
      "bert_hpc::ops::attention_backward_q", queries.count * extents.heads, KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t i = item / p.extents.heads, head = item % p.extents.heads;
        const std::int64_t sequence = p.queries.sequence[i], column = head * p.extents.head_dim;
        const std::int64_t begin = p.keys.offsets[sequence], end = p.keys.offsets[sequence + 1];
        const float* d_o = d_out.row(i) + column;
        const float diagonal = p.dot(d_o, out.row(i) + column), lse = log_sum_exp(head, i);
        float* row = d_q.row(i) + column;
        for (std::int64_t c = 0; c < p.extents.head_dim; ++c) row[c] = 0.0f;
        for (std::int64_t j = begin; j < end; ++j) {
          const float probability = std::exp(p.score(i, j, column) - lse);
          const float d_p = p.kept(sequence, head, i, j - begin) * p.dot(d_o, v.row(j) + column);
          p.add_scaled(p.scale * probability * (d_p - diagonal), k.row(j) + column, row);
        }
      });
  kernel::for_items(
      "bert_hpc::ops::attention_backward_kv", keys.count * extents.heads, KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t j = item / p.extents.heads, head = item % p.extents.heads;
        const std::int64_t sequence = p.keys.sequence[j], column = head * p.extents.head_dim;
        const std::int64_t position = j - p.keys.offsets[sequence];
        float* row_k = d_k.row(j) + column;
        float* row_v = d_v.row(j) + column;
        for (std::int64_t c = 0; c < p.extents.head_dim; ++c) row_k[c] = row_v[c] = 0.0f;
        for (std::int64_t i = p.queries.offsets[sequence]; i < p.queries.offsets[sequence + 1]; ++i) {
          const float* d_o = d_out.row(i) + column;
          const float probability = std::exp(p.score(i, j, column) - log_sum_exp(head, i));
          const float kept = p.kept(sequence, head, i, position);
          const float d_p = kept * p.dot(d_o, v.row(j) + column);
          const float diagonal = p.dot(d_o, out.row(i) + column);
          p.add_scaled(p.scale * probability * (d_p - diagonal), q.row(i) + column, row_k);
          p.add_scaled(kept * probability, d_o, row_v);
        }
      });
}

}  // namespace

std::unique_ptr<Attention> make_attention(const std::string& kind) {
  if (kind == "plain") return std::make_unique<PlainAttention>();
#if BERT_HPC_KERNELS_ON_GPU
  if (kind == "fused") return std::make_unique<PlainAttention>();
#else
  if (kind == "fused") return cpu::make_fused_attention(cpu::InstructionSet::widest);
  if (kind == "fused-baseline") return cpu::make_fused_attention(cpu::InstructionSet::baseline);
#endif
  throw core::Error(core::ExitCode::input,
                    "model.attention = \"" + kind + "\" is not known; there are \"fused\" and \"plain\".");
}

}  // namespace bert_hpc::ops
