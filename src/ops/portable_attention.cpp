// The portable attention. A work item is one row of one head; scores are recomputed instead of stored; items share
// nothing.
#include "portable_attention.hpp"

#include <cmath>
#include <limits>

#include "bert_hpc/ops/attention_dropout.hpp"
#include "kernel.hpp"

namespace bert_hpc::ops {
namespace {

/// Number of result columns that a work item sums at once. Sums are float for every storage type.
constexpr std::int64_t sum_columns = 128;

struct RowRange {
  std::int64_t begin, end;
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

  KOKKOS_INLINE_FUNCTION float dot(const T* a, const T* b) const {
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (std::int64_t j = 0; j < extents.head_dim; ++j) total += a[j] * b[j];
    return total;
  }

  KOKKOS_INLINE_FUNCTION float score(std::int64_t query, std::int64_t key, std::int64_t column) const {
    const T *const own = q.row(query) + column, *const other = k.row(key) + column;
    if (relative_keys.data != nullptr) {
      const std::int32_t bucket = distances.bucket_of(distance(query, key));
      return scale * (dot(own, other) + dot(own, relative_keys.row(bucket) + column) +
                      dot(other, relative_queries.row(bucket) + column));
    }
    const float scaled = scale * dot(own, other);
    if (bias.table.data == nullptr) return scaled;
    return scaled + bias.table(column / extents.head_dim, bias.bucket_of(distance(query, key)));
  }

  KOKKOS_INLINE_FUNCTION std::int64_t distance(std::int64_t query, std::int64_t key) const {
    return key - keys.offsets[keys.sequence[key]] - queries.position[query];
  }

  KOKKOS_INLINE_FUNCTION std::int64_t first_padded(std::int64_t sequence) const {
    return real_keys != nullptr ? keys.offsets[sequence] + real_keys[sequence] : keys.offsets[sequence + 1];
  }

  /// The keys that the mask shows to a query.
  KOKKOS_INLINE_FUNCTION RowRange keys_of(std::int64_t sequence, std::int64_t query) const {
    const std::int64_t first = keys.offsets[sequence], end = keys.offsets[sequence + 1];
    if (!mask.is_limited()) return {first, end};
    const std::int64_t position = queries.position[query];
    return {first + mask.begin(position, first_padded(sequence) - first), first + mask.end(position, end - first)};
  }

  /// The queries to which the mask shows the key at this position.
  KOKKOS_INLINE_FUNCTION RowRange queries_of(std::int64_t sequence, std::int64_t key_position) const {
    std::int64_t begin = queries.offsets[sequence], end = queries.offsets[sequence + 1];
    if (!mask.is_limited()) return {begin, end};
    const std::int64_t real = first_padded(sequence) - keys.offsets[sequence];
    while (begin < end && queries.position[begin] + mask.after < key_position) ++begin;
    while (begin < end && mask.begin(queries.position[end - 1], real) > key_position) --end;
    return {begin, end};
  }

  /// The score of a key, after it was computed, if the key is real (below `padded`); else one whose exponential is 0.
  KOKKOS_INLINE_FUNCTION float masked_score(std::int64_t query, std::int64_t key, std::int64_t column,
                                            std::int64_t padded) const {
    const float s = score(query, key, column);
    return key < padded ? s : -std::numeric_limits<float>::max();
  }

  /// keep / P(keep) for the element (query row, key position) of a head.
  KOKKOS_INLINE_FUNCTION float kept(std::int64_t sequence, std::int64_t head, std::int64_t query,
                                    std::int64_t key_position) const {
    if (threshold == 0) return 1.0f;
    const std::uint32_t row = static_cast<std::uint32_t>(((extents.first_head + head) << 20) + queries.position[query]);
    const core::Philox4 bits =
        dropout_bits(dropout, dropout.sample[sequence], row, attention_dropout_block(key_position));
    return attention_dropout_keeps(bits, attention_dropout_byte(key_position), threshold) ? drop_scale : 0.0f;
  }

  /// Width of the group of at most sum_columns columns of a head that begins at `begin`.
  KOKKOS_INLINE_FUNCTION std::int64_t width(std::int64_t begin) const {
    return extents.head_dim - begin < sum_columns ? extents.head_dim - begin : sum_columns;
  }
};

/// sums += factor · x
template <class T>
KOKKOS_INLINE_FUNCTION void add_scaled(std::int64_t count, float factor, const T* x, float* sums) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) sums[j] += factor * x[j];
}

template <class T>
KOKKOS_INLINE_FUNCTION void store_sums(std::int64_t count, const float* sums, T* to) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) to[j] = sums[j];
}

template <class T>
Problem<T> make_problem(const AttentionInputs& in) {
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
                     .distances = in.relative.distances};
  if (in.relative.any()) {
    problem.relative_keys = in.relative.keys.as<T>();
    problem.relative_queries = in.relative.queries.as<T>();
  }
  return problem;
}

// s_j = q·k_j / √d,  lse = log Σ_j exp(s_j),  out = Σ_j kept_j · exp(s_j − lse) · v_j
template <class T>
void portable_forward(const core::CallWork& work, const Problem<T>& problem, Tensor<T> out, Tensor<float> log_sum_exp) {
  const Problem<T> p = problem;
  kernel::for_items(
      {"bert_hpc::ops::attention_forward", work}, p.queries.count * p.extents.heads, KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t i = item / p.extents.heads, head = item % p.extents.heads;
        const std::int64_t sequence = p.queries.sequence[i], column = head * p.extents.head_dim;
        const auto [begin, end] = p.keys_of(sequence, i);
        const std::int64_t first = p.keys.offsets[sequence], padded = p.first_padded(sequence);
        float largest = p.score(i, begin, column), total = 0.0f;
        for (std::int64_t j = begin; j < end; ++j) {  // the running maximum rescales the sum when it grows
          const float s = p.masked_score(i, j, column, padded);
          if (s > largest) {
            total *= std::exp(largest - s);
            largest = s;
          }
          total += std::exp(s - largest);
        }
        const float lse = largest + std::log(total);
        log_sum_exp(head, i) = lse;
        for (std::int64_t c = 0; c < p.extents.head_dim; c += sum_columns) {
          float sums[sum_columns] = {};
          for (std::int64_t j = begin; j < end; ++j) {
            const float probability =
                std::exp(p.masked_score(i, j, column, padded) - lse) * p.kept(sequence, head, i, j - first);
            add_scaled(p.width(c), probability, p.v.row(j) + column + c, sums);
          }
          store_sums(p.width(c), sums, out.row(i) + column + c);
        }
      });
}

// With p_ij = exp(s_ij − lse_i), D_i = d_out_i · out_i and ds_ij = p_ij · (kept_ij · d_out_i · v_j − D_i):
// d_q_i = Σ_j ds_ij · k_j / √d,  d_k_j = Σ_i ds_ij · q_i / √d,  d_v_j = Σ_i kept_ij · p_ij · d_out_i
template <class T>
void portable_backward_q(const core::CallWork& work, const Problem<T>& problem, Tensor<const T> out,
                         Tensor<const float> log_sum_exp, Tensor<const T> d_out, Tensor<T> d_q) {
  const Problem<T> p = problem;
  kernel::for_items(
      {"bert_hpc::ops::attention_backward_q", work}, p.queries.count * p.extents.heads,
      KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t i = item / p.extents.heads, head = item % p.extents.heads;
        const std::int64_t sequence = p.queries.sequence[i], column = head * p.extents.head_dim;
        const auto [begin, end] = p.keys_of(sequence, i);
        const std::int64_t first = p.keys.offsets[sequence], padded = p.first_padded(sequence);
        const T* d_o = d_out.row(i) + column;
        const float diagonal = p.dot(d_o, out.row(i) + column), lse = log_sum_exp(head, i);
        for (std::int64_t c = 0; c < p.extents.head_dim; c += sum_columns) {
          float sums[sum_columns] = {};
          for (std::int64_t j = begin; j < end; ++j) {
            const float probability = std::exp(p.masked_score(i, j, column, padded) - lse);
            const float d_p = p.kept(sequence, head, i, j - first) * p.dot(d_o, p.v.row(j) + column);
            const float d_s = p.scale * probability * (d_p - diagonal);
            add_scaled(p.width(c), d_s, p.k.row(j) + column + c, sums);
            if (p.relative_keys.data == nullptr) continue;
            const std::int32_t bucket = p.distances.bucket_of(p.distance(i, j));
            add_scaled(p.width(c), d_s, p.relative_keys.row(bucket) + column + c, sums);
          }
          store_sums(p.width(c), sums, d_q.row(i) + column + c);
        }
      });
}

template <class T>
void portable_backward_kv(const core::CallWork& work, const Problem<T>& problem, Tensor<const T> out,
                          Tensor<const float> log_sum_exp, Tensor<const T> d_out, Tensor<T> d_k, Tensor<T> d_v) {
  const Problem<T> p = problem;
  kernel::for_items(
      {"bert_hpc::ops::attention_backward_kv", work}, p.keys.count * p.extents.heads, KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t j = item / p.extents.heads, head = item % p.extents.heads;
        const std::int64_t sequence = p.keys.sequence[j], column = head * p.extents.head_dim;
        const std::int64_t position = j - p.keys.offsets[sequence], padded = p.first_padded(sequence);
        const auto [begin, end] = p.queries_of(sequence, position);
        for (std::int64_t c = 0; c < p.extents.head_dim; c += sum_columns) {
          float sums_k[sum_columns] = {}, sums_v[sum_columns] = {};
          for (std::int64_t i = begin; i < end; ++i) {
            const T* d_o = d_out.row(i) + column;
            const float probability = std::exp(p.masked_score(i, j, column, padded) - log_sum_exp(head, i));
            const float kept = p.kept(sequence, head, i, position);
            const float d_p = kept * p.dot(d_o, p.v.row(j) + column);
            const float diagonal = p.dot(d_o, out.row(i) + column);
            const float d_s = p.scale * probability * (d_p - diagonal);
            add_scaled(p.width(c), d_s, p.q.row(i) + column + c, sums_k);
            add_scaled(p.width(c), kept * probability, d_o + c, sums_v);
            if (p.relative_queries.data == nullptr) continue;
            const std::int32_t bucket = p.distances.bucket_of(p.distance(i, j));
            add_scaled(p.width(c), d_s, p.relative_queries.row(bucket) + column + c, sums_k);
          }
          store_sums(p.width(c), sums_k, d_k.row(j) + column + c);
          store_sums(p.width(c), sums_v, d_v.row(j) + column + c);
        }
      });
}

/// Calls visit(query, key, ds) for the pairs of a distance of a sequence and head that the mask leaves, in the order of
/// queries; `slot`: distance_slot().
template <class T, class Visit>
KOKKOS_INLINE_FUNCTION void for_pairs(const Problem<T>& p, Tensor<const T> out, Tensor<const float> log_sum_exp,
                                      Tensor<const T> d_out, std::int64_t head, std::int64_t slot, const Visit& visit) {
  const std::int64_t sequence = p.keys.sequence[slot / 2], column = head * p.extents.head_dim;
  const std::int64_t first = p.keys.offsets[sequence], length = p.keys.offsets[sequence + 1] - first;
  const std::int64_t distance = slot - distance_slot(first, length, 0), padded = p.first_padded(sequence);
  for (std::int64_t i = p.queries.offsets[sequence]; i < p.queries.offsets[sequence + 1]; ++i) {
    const std::int64_t j = first + p.queries.position[i] + distance;
    const auto [begin, end] = p.keys_of(sequence, i);
    if (j < begin || j >= end) continue;
    const T* d_o = d_out.row(i) + column;
    const float probability = std::exp(p.masked_score(i, j, column, padded) - log_sum_exp(head, i));
    const float d_p = p.kept(sequence, head, i, j - first) * p.dot(d_o, p.v.row(j) + column);
    visit(i, j, probability * (d_p - p.dot(d_o, out.row(i) + column)));
  }
}

// A work item is one distance of one sequence and head: d_bias = Σ ds_ij of its pairs.
template <class T>
void portable_backward_bias(const core::CallWork& work, const Problem<T>& problem, Tensor<const T> out,
                            Tensor<const float> log_sum_exp, Tensor<const T> d_out, Tensor<float> d_bias) {
  const Problem<T> p = problem;
  kernel::for_items(
      {"bert_hpc::ops::attention_backward_bias", work}, d_bias.size(), KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t head = item / d_bias.columns, slot = item % d_bias.columns;
        float sum = 0.0f;
        for_pairs(p, out, log_sum_exp, d_out, head, slot, [&](std::int64_t, std::int64_t, float d_s) { sum += d_s; });
        d_bias(head, slot) = sum;
      });
}

// The same for relative positions: d_keys = scale · Σ ds_ij · q_i and d_queries = scale · Σ ds_ij · k_j.
template <class T>
void portable_backward_relative(const core::CallWork& work, const Problem<T>& problem, Tensor<const T> out,
                                Tensor<const float> log_sum_exp, Tensor<const T> d_out, Tensor<float> d_keys,
                                Tensor<float> d_queries) {
  const Problem<T> p = problem;
  kernel::for_items(
      {"bert_hpc::ops::attention_backward_relative", work}, d_keys.rows * p.extents.heads,
      KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t head = item / d_keys.rows, slot = item % d_keys.rows, column = head * p.extents.head_dim;
        for (std::int64_t c = 0; c < p.extents.head_dim; c += sum_columns) {
          float sums_k[sum_columns] = {}, sums_q[sum_columns] = {};
          for_pairs(p, out, log_sum_exp, d_out, head, slot, [&](std::int64_t i, std::int64_t j, float d_s) {
            add_scaled(p.width(c), p.scale * d_s, p.q.row(i) + column + c, sums_k);
            add_scaled(p.width(c), p.scale * d_s, p.k.row(j) + column + c, sums_q);
          });
          store_sums(p.width(c), sums_k, d_keys.row(slot) + column + c);
          store_sums(p.width(c), sums_q, d_queries.row(slot) + column + c);
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
                          results.log_sum_exp);
    });
  }

  void backward(const AttentionInputs& inputs, const AttentionResults& results, ConstMatrix d_out,
                const AttentionGradients& gradients) override {
    core::with_type(inputs.q.type, [&]<class T>() {
      const Problem<T> problem = make_problem<T>(inputs);
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
