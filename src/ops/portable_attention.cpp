// The portable attention. A work item is one row of one head, on GPUs a warp; scores are recomputed instead of stored;
// items share nothing.
#include "portable_attention.hpp"

#include <cmath>
#include <limits>

#include "bert_hpc/ops/attention_dropout.hpp"
#include "column_group.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using kernel::ColumnGroup, kernel::group_columns, kernel::group_width, kernel::RowTeam;

struct RowRange {
  std::int64_t begin, end;
};

/// The dropout of 64 keys of a query, as attention_kept_bit() orders them.
struct KeptKeys {
  std::int64_t tile = -1;
  std::uint64_t bits = 0;

  KOKKOS_INLINE_FUNCTION bool operator[](std::int64_t key) const {
    return (bits >> attention_kept_bit(static_cast<int>(key % 64)) & 1u) != 0;
  }
};

/// The inputs of every kernel of one call.
template <class T>
struct Problem {
  AttentionExtents extents;
  TokenRows queries, keys;
  Dropout dropout;
  std::uint32_t threshold;
  float drop_scale;         // 1 / P(keep)
  float scale;              // of scores
  Tensor<const T> q, k, v;  // (query rows, hidden), (key rows, hidden), (key rows, hidden)
  const std::int32_t* real_keys;
  AttentionMask mask;
  PositionBias bias;
  DistanceBuckets distances;
  Tensor<const T> relative_keys{}, relative_queries{};  // (buckets, hidden); without data: none
  Tensor<const std::uint64_t> saved_kept{};             // of forward; empty: drawn again

  KOKKOS_INLINE_FUNCTION float dot(const RowTeam& team, const T* a, const T* b) const {
    return team.sum<float>(extents.head_dim,
                           [=](std::int64_t c) { return static_cast<float>(a[c]) * static_cast<float>(b[c]); });
  }

  KOKKOS_INLINE_FUNCTION float score(const RowTeam& team, std::int64_t query, std::int64_t key,
                                     std::int64_t column) const {
    const T *const own = q.row(query) + column, *const other = k.row(key) + column;
    if (relative_keys.data != nullptr) {
      const std::int32_t bucket = distances.bucket_of(distance(query, key));
      const T *const of_key = relative_keys.row(bucket) + column, *const of_query =
                                                                      relative_queries.row(bucket) + column;
      return scale * team.sum<float>(extents.head_dim, [=](std::int64_t c) {
        const float a = own[c], b = other[c];
        return a * (b + static_cast<float>(of_key[c])) + b * static_cast<float>(of_query[c]);
      });
    }
    const float scaled = scale * dot(team, own, other);
    if (bias.table.data == nullptr) return scaled;
    return scaled + bias.table(column / extents.head_dim, bias.bucket_of(distance(query, key)));
  }

  KOKKOS_INLINE_FUNCTION std::int64_t distance(std::int64_t query, std::int64_t key) const {
    return key - keys.offsets[keys.sequence[key]] - queries.position[query];
  }

  KOKKOS_INLINE_FUNCTION std::int64_t first_padded(std::int64_t sequence) const {
    return real_keys != nullptr ? keys.offsets[sequence] + real_keys[sequence] : keys.offsets[sequence + 1];
  }

  /// The real keys that the mask shows to a query.
  KOKKOS_INLINE_FUNCTION RowRange keys_of(std::int64_t sequence, std::int64_t query) const {
    const std::int64_t first = keys.offsets[sequence], padded = first_padded(sequence);
    if (!mask.is_limited()) return {first, padded};
    const std::int64_t position = queries.position[query];
    return {first + mask.begin(position, padded - first), first + mask.end(position, padded - first)};
  }

  /// The queries to which the mask shows the key at this position; none if it is padding.
  KOKKOS_INLINE_FUNCTION RowRange queries_of(std::int64_t sequence, std::int64_t key_position) const {
    std::int64_t begin = queries.offsets[sequence], end = queries.offsets[sequence + 1];
    const std::int64_t real = first_padded(sequence) - keys.offsets[sequence];
    if (key_position >= real) return {begin, begin};
    if (!mask.is_limited()) return {begin, end};
    while (begin < end && queries.position[begin] + mask.after < key_position) ++begin;
    while (begin < end && mask.begin(queries.position[end - 1], real) > key_position) --end;
    return {begin, end};
  }

  /// Word of a query and of 64 keys from tile · 64 on.
  KOKKOS_INLINE_FUNCTION std::uint64_t draw(std::int64_t sequence, std::int64_t head, std::int64_t query,
                                            std::int64_t tile) const {
    std::uint64_t bits = 0;
    for (std::int64_t pair = 0; pair < 8; pair += 2) {  // the keys with these values of key % 8 share a block
      const core::Philox4 drawn = block(sequence, head, query, tile * 64 + pair);
      for (std::int64_t eight = 0; eight < 64; eight += 8) {
        for (std::int64_t key = eight + pair; key < eight + pair + 2; ++key) {
          const bool keeps = attention_dropout_keeps(drawn, attention_dropout_byte(key), threshold);
          bits |= static_cast<std::uint64_t>(keeps) << attention_kept_bit(static_cast<int>(key));
        }
      }
    }
    return bits;
  }

  KOKKOS_INLINE_FUNCTION core::Philox4 block(std::int64_t sequence, std::int64_t head, std::int64_t query,
                                             std::int64_t key_position) const {
    const std::uint32_t row = static_cast<std::uint32_t>(((extents.first_head + head) << 20) + queries.position[query]);
    return dropout_bits(dropout, dropout.sample[sequence], row, attention_dropout_block(key_position));
  }

  KOKKOS_INLINE_FUNCTION std::int64_t saved_row(std::int64_t head, std::int64_t tile) const {
    return head * (saved_kept.rows / extents.heads) + tile;
  }

  /// keep / P(keep) for the element (query row, key position) of a head; `last`: those of the key before, to begin
  /// with none.
  KOKKOS_INLINE_FUNCTION float kept(std::int64_t sequence, std::int64_t head, std::int64_t query,
                                    std::int64_t key_position, KeptKeys& last) const {
    if (threshold == 0) return 1.0f;
    if (const std::int64_t tile = key_position / 64; tile != last.tile) {
      const bool saved = saved_kept.rows > 0;
      last = {tile, saved ? saved_kept(saved_row(head, tile), query) : draw(sequence, head, query, tile)};
    }
    return last[key_position] ? drop_scale : 0.0f;
  }
  /// The same for elements of which no two are of one query.
  KOKKOS_INLINE_FUNCTION float kept(std::int64_t sequence, std::int64_t head, std::int64_t query,
                                    std::int64_t key_position) const {
    KeptKeys last;
    if (threshold == 0 || saved_kept.rows > 0) return kept(sequence, head, query, key_position, last);
    const core::Philox4 drawn = block(sequence, head, query, key_position);
    return attention_dropout_keeps(drawn, attention_dropout_byte(key_position), threshold) ? drop_scale : 0.0f;
  }
};

template <class T>
Problem<T> make_problem(const AttentionInputs& in, Tensor<const std::uint64_t> saved_kept = {}) {
  const std::uint32_t threshold = attention_dropout_threshold(in.dropout.probability);
  Problem<T> problem{.extents = in.extents,
                     .queries = in.queries,
                     .keys = in.keys,
                     .dropout = in.dropout,
                     .threshold = threshold,
                     .drop_scale = attention_dropout_scale(threshold),
                     .scale = static_cast<float>(in.scale()),
                     .q = in.q.as<T>(),
                     .k = in.k.as<T>(),
                     .v = in.v.as<T>(),
                     .real_keys = in.real_keys,
                     .mask = in.mask,
                     .bias = in.bias,
                     .distances = in.relative.distances,
                     .saved_kept = saved_kept};
  if (in.relative.any()) {
    problem.relative_keys = in.relative.keys.as<T>();
    problem.relative_queries = in.relative.queries.as<T>();
  }
  return problem;
}

// s_j = q·k_j / √d,  lse = log Σ_j exp(s_j),  out = Σ_j kept_j · exp(s_j − lse) · v_j
template <class T>
void portable_forward(const core::CallWork& work, const Problem<T>& problem, Tensor<T> out, Tensor<float> log_sum_exp,
                      Tensor<std::uint64_t> kept) {
  const Problem<T> p = problem;
  kernel::for_rows(
      {"bert_hpc::ops::attention_forward", work}, p.queries.count * p.extents.heads,
      KOKKOS_LAMBDA(const RowTeam& team, std::int64_t item) {
        const std::int64_t i = item / p.extents.heads, head = item % p.extents.heads;
        const std::int64_t sequence = p.queries.sequence[i], column = head * p.extents.head_dim;
        const RowRange keys = p.keys_of(sequence, i);
        const std::int64_t first = p.keys.offsets[sequence];
        for (std::int64_t c = 0; c < p.extents.head_dim; c += group_columns) {
          const std::int64_t width = group_width(p.extents.head_dim, c);
          ColumnGroup group;
          KeptKeys last;
          float largest = -std::numeric_limits<float>::max(), total = 0.0f;
          for (std::int64_t j = keys.begin; j < keys.end; ++j) {  // the running maximum rescales the sums when it grows
            const float s = p.score(team, i, j, column);
            if (s > largest) {
              const float factor = std::exp(largest - s);
              total *= factor;
              group.scale(factor);
              largest = s;
            }
            const float weight = std::exp(s - largest);
            total += weight;
            const std::int64_t before = last.tile;
            const float factor = p.kept(sequence, head, i, j - first, last);
            if (kept.rows > 0 && last.tile != before && team.leads()) {
              kept(head * (kept.rows / p.extents.heads) + last.tile, i) = last.bits;
            }
            group.add(team, width, weight * factor, p.v.row(j) + column + c);
          }
          group.store(team, width, 1.0f / total, out.row(i) + column + c);
          if (c == 0 && team.leads()) log_sum_exp(head, i) = largest + std::log(total);
        }
      });
}

// With p_ij = exp(s_ij − lse_i), D_i = d_out_i · out_i and ds_ij = p_ij · (kept_ij · d_out_i · v_j − D_i):
// d_q_i = Σ_j ds_ij · k_j / √d,  d_k_j = Σ_i ds_ij · q_i / √d,  d_v_j = Σ_i kept_ij · p_ij · d_out_i
template <class T>
void portable_backward_q(const core::CallWork& work, const Problem<T>& problem, Tensor<const T> out,
                         Tensor<const float> log_sum_exp, Tensor<const T> d_out, Tensor<T> d_q) {
  const Problem<T> p = problem;
  kernel::for_rows(
      {"bert_hpc::ops::attention_backward_q", work}, p.queries.count * p.extents.heads,
      KOKKOS_LAMBDA(const RowTeam& team, std::int64_t item) {
        const std::int64_t i = item / p.extents.heads, head = item % p.extents.heads;
        const std::int64_t sequence = p.queries.sequence[i], column = head * p.extents.head_dim;
        const RowRange keys = p.keys_of(sequence, i);
        const std::int64_t first = p.keys.offsets[sequence];
        const T* const d_o = d_out.row(i) + column;
        const float diagonal = p.dot(team, d_o, out.row(i) + column), lse = log_sum_exp(head, i);
        for (std::int64_t c = 0; c < p.extents.head_dim; c += group_columns) {
          const std::int64_t width = group_width(p.extents.head_dim, c);
          ColumnGroup group;
          KeptKeys last;
          for (std::int64_t j = keys.begin; j < keys.end; ++j) {
            const float probability = std::exp(p.score(team, i, j, column) - lse);
            const float d_p = p.kept(sequence, head, i, j - first, last) * p.dot(team, d_o, p.v.row(j) + column);
            const float d_s = probability * (d_p - diagonal);
            group.add(team, width, d_s, p.k.row(j) + column + c);
            if (p.relative_keys.data == nullptr) continue;
            const std::int32_t bucket = p.distances.bucket_of(p.distance(i, j));
            group.add(team, width, d_s, p.relative_keys.row(bucket) + column + c);
          }
          group.store(team, width, p.scale, d_q.row(i) + column + c);
        }
      });
}

template <class T>
void portable_backward_kv(const core::CallWork& work, const Problem<T>& problem, Tensor<const T> out,
                          Tensor<const float> log_sum_exp, Tensor<const T> d_out, Tensor<T> d_k, Tensor<T> d_v) {
  const Problem<T> p = problem;
  kernel::for_rows(
      {"bert_hpc::ops::attention_backward_kv", work}, p.keys.count * p.extents.heads,
      KOKKOS_LAMBDA(const RowTeam& team, std::int64_t item) {
        const std::int64_t j = item / p.extents.heads, head = item % p.extents.heads;
        const std::int64_t sequence = p.keys.sequence[j], column = head * p.extents.head_dim;
        const std::int64_t position = j - p.keys.offsets[sequence];
        const RowRange queries = p.queries_of(sequence, position);
        for (std::int64_t c = 0; c < p.extents.head_dim; c += group_columns) {
          const std::int64_t width = group_width(p.extents.head_dim, c);
          ColumnGroup group_k, group_v;
          for (std::int64_t i = queries.begin; i < queries.end; ++i) {
            const T* const d_o = d_out.row(i) + column;
            const float probability = std::exp(p.score(team, i, j, column) - log_sum_exp(head, i));
            const float kept = p.kept(sequence, head, i, position);
            const float d_p = kept * p.dot(team, d_o, p.v.row(j) + column);
            const float d_s = probability * (d_p - p.dot(team, d_o, out.row(i) + column));
            group_k.add(team, width, d_s, p.q.row(i) + column + c);
            group_v.add(team, width, kept * probability, d_o + c);
            if (p.relative_queries.data == nullptr) continue;
            const std::int32_t bucket = p.distances.bucket_of(p.distance(i, j));
            group_k.add(team, width, d_s, p.relative_queries.row(bucket) + column + c);
          }
          group_k.store(team, width, p.scale, d_k.row(j) + column + c);
          group_v.store(team, width, 1.0f, d_v.row(j) + column + c);
        }
      });
}

/// Calls visit(query, key, ds) for the pairs of a distance of a sequence and head that the mask leaves, in the order of
/// queries; `slot`: distance_slot().
template <class T, class Visit>
KOKKOS_INLINE_FUNCTION void for_pairs(const Problem<T>& p, const RowTeam& team, Tensor<const T> out,
                                      Tensor<const float> log_sum_exp, Tensor<const T> d_out, std::int64_t head,
                                      std::int64_t slot, const Visit& visit) {
  const std::int64_t sequence = p.keys.sequence[slot / 2], column = head * p.extents.head_dim;
  const std::int64_t first = p.keys.offsets[sequence], length = p.keys.offsets[sequence + 1] - first;
  const std::int64_t distance = slot - distance_slot(first, length, 0);
  for (std::int64_t i = p.queries.offsets[sequence]; i < p.queries.offsets[sequence + 1]; ++i) {
    const std::int64_t j = first + p.queries.position[i] + distance;
    const RowRange keys = p.keys_of(sequence, i);
    if (j < keys.begin || j >= keys.end) continue;
    const T* const d_o = d_out.row(i) + column;
    const float probability = std::exp(p.score(team, i, j, column) - log_sum_exp(head, i));
    const float d_p = p.kept(sequence, head, i, j - first) * p.dot(team, d_o, p.v.row(j) + column);
    visit(i, j, probability * (d_p - p.dot(team, d_o, out.row(i) + column)));
  }
}

// A work item is one distance of one sequence and head: d_bias = Σ ds_ij of its pairs.
template <class T>
void portable_backward_bias(const core::CallWork& work, const Problem<T>& problem, Tensor<const T> out,
                            Tensor<const float> log_sum_exp, Tensor<const T> d_out, Tensor<float> d_bias) {
  const Problem<T> p = problem;
  kernel::for_rows(
      {"bert_hpc::ops::attention_backward_bias", work}, d_bias.size(),
      KOKKOS_LAMBDA(const RowTeam& team, std::int64_t item) {
        const std::int64_t head = item / d_bias.columns, slot = item % d_bias.columns;
        float sum = 0.0f;
        for_pairs(p, team, out, log_sum_exp, d_out, head, slot,
                  [&](std::int64_t, std::int64_t, float d_s) { sum += d_s; });
        if (team.leads()) d_bias(head, slot) = sum;
      });
}

// The same for relative positions: d_keys = scale · Σ ds_ij · q_i and d_queries = scale · Σ ds_ij · k_j.
template <class T>
void portable_backward_relative(const core::CallWork& work, const Problem<T>& problem, Tensor<const T> out,
                                Tensor<const float> log_sum_exp, Tensor<const T> d_out, Tensor<float> d_keys,
                                Tensor<float> d_queries) {
  const Problem<T> p = problem;
  kernel::for_rows(
      {"bert_hpc::ops::attention_backward_relative", work}, d_keys.rows * p.extents.heads,
      KOKKOS_LAMBDA(const RowTeam& team, std::int64_t item) {
        const std::int64_t head = item / d_keys.rows, slot = item % d_keys.rows, column = head * p.extents.head_dim;
        for (std::int64_t c = 0; c < p.extents.head_dim; c += group_columns) {
          const std::int64_t width = group_width(p.extents.head_dim, c);
          ColumnGroup group_k, group_q;
          for_pairs(p, team, out, log_sum_exp, d_out, head, slot, [&](std::int64_t i, std::int64_t j, float d_s) {
            group_k.add(team, width, d_s, p.q.row(i) + column + c);
            group_q.add(team, width, d_s, p.k.row(j) + column + c);
          });
          group_k.store(team, width, p.scale, d_keys.row(slot) + column + c);
          group_q.store(team, width, p.scale, d_queries.row(slot) + column + c);
        }
      });
}

class PortableAttention : public Attention {
 public:
  std::string name() const override { return "portable"; }
  std::int64_t reserve(std::int64_t, std::int64_t, bool) override { return 0; }

  void forward(const AttentionInputs& inputs, const AttentionResults& results) override {
    core::with_type(inputs.q.type, [&]<class T>() {
      portable_forward<T>(attention_work(inputs, 2, 2, 2), make_problem<T>(inputs), results.out.as<T>(),
                          results.log_sum_exp, results.kept);
    });
  }

  void backward(const AttentionInputs& inputs, const AttentionResults& results, ConstMatrix d_out,
                const AttentionGradients& gradients) override {
    core::with_type(inputs.q.type, [&]<class T>() {
      const Problem<T> problem = make_problem<T>(inputs, results.kept);
      const Tensor<const T> out = results.out.as<T>();
      portable_backward_q<T>(attention_work(inputs, 1, 4, 2), problem, out, results.log_sum_exp, d_out.as<T>(),
                             gradients.d_q.as<T>());
      portable_backward_kv<T>(attention_work(inputs, 4, 3, 4), problem, out, results.log_sum_exp, d_out.as<T>(),
                              gradients.d_k.as<T>(), gradients.d_v.as<T>());
      if (gradients.d_bias.size() > 0) {
        portable_backward_bias<T>(attention_work(inputs, 0, 3, 2), problem, out, results.log_sum_exp, d_out.as<T>(),
                                  gradients.d_bias);
      }
      if (gradients.d_relative_keys.size() > 0) {
        portable_backward_relative<T>(attention_work(inputs, 2, 3, 2), problem, out, results.log_sum_exp, d_out.as<T>(),
                                      gradients.d_relative_keys, gradients.d_relative_queries);
      }
    });
  }
};

}  // namespace

std::unique_ptr<Attention> make_portable_attention() {
  return std::make_unique<PortableAttention>();
}

}  // namespace bert_hpc::ops
