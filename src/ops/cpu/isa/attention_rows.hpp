// What the fused attention of a CPU does with a row of scores between the products: softmax, its gradient, the position
// bias. No function of a shared header may be called here (see attention_task.hpp).
#pragma once

#include <cstdint>

#include "../attention_task.hpp"
#include "attention_blocks.hpp"
#include "attention_dropout.hpp"

namespace bert_hpc::ops::cpu {
namespace {

inline Vector select(IntVector mask, Vector x) {
  return reinterpret_cast<Vector>(mask & reinterpret_cast<IntVector>(x));
}

/// What softmax knows of a query after some of its keys: the largest score, and Σ exp((score − largest) / √head_dim).
struct RowSum {
  float largest = -__builtin_inff(), sum = 0;
};

/// Converts the scores of the row's keys, of `end` in all, to probabilities, with dropout, not yet divided by their
/// sum, and the others to 0. Adds the probabilities before dropout to `row`. Returns the factor for sums of earlier
/// keys.
inline float softmax_row(const AttentionHead& task, const IndexRange& keys, std::int64_t end, float* s,
                         const std::uint8_t* bits, RowSum& row) {
  if (keys.size() == 0) {
    clear_others(keys, end, s);
    for_keys(keys, [&](std::int64_t j, auto...) { store(s + j, Vector{}); });
    return 1.0f;
  }
  Vector most = broadcast(row.largest);
  for_keys(keys, [&](std::int64_t j, auto... some) {
    const Vector more = larger(most, load(s + j));
    if constexpr (sizeof...(some) == 0) {
      most = more;
    } else {
      most = (some, ...) ? more : most;
    }
  });
  const float largest = largest_lane(most);
  const Vector shift = broadcast(largest), scale = broadcast(task.scale);
  Vector sum = {};
  for_keys(keys, [&](std::int64_t j, auto... some) {
    Vector e = exp_of_negative((load(s + j) - shift) * scale);
    if constexpr (sizeof...(some) > 0) e = select((some, ...), e);
    sum += e;
    if (task.threshold > 0) e = select(kept(bits + j, task.threshold), e);
    store(s + j, e);
  });
  clear_others(keys, end, s);
  const float before = row.sum == 0.0f ? 0.0f : exp_of_negative((broadcast(row.largest) - shift) * scale)[0];
  row = {largest, row.sum * before + sum_of_lanes(sum)};
  return before;
}

static_assert(lanes <= distance_margin, "a block's keys are rounded up to whole vectors");

/// Adds the position bias of query `query` to its scores with a block's keys.
inline void add_bias(const AttentionHead& task, const Block& block, std::int64_t query, float* s) {
  const float* const bias = task.bias + block.first_key - task.position[query];
  for (std::int64_t j = 0; j < block.keys; j += lanes) store(s + j, load(s + j) + load(bias + j));
}

/// Adds the gradients of the query's scores to those of their distances.
inline void add_distances(const AttentionHead& task, const Block& block, std::int64_t query, const float* d_s,
                          float* d_bias) {
  float* const sums = d_bias + block.first_key - task.position[query];
  for (std::int64_t j = 0; j < block.keys; j += lanes) store(sums + j, load(sums + j) + load(d_s + j));
}

/// row *= factor
inline void scale_row(float factor, std::int64_t columns, float* row) {
  if (factor == 1.0f) return;
  for (std::int64_t c = 0; c < columns; ++c) row[c] *= factor;
}

/// For the row's keys, of `end` in all, in place: scores become probabilities after dropout, and d_p = d_out·v becomes
/// d_s / √head_dim. The others become 0.
inline void gradient_row(const AttentionHead& task, const IndexRange& keys, std::int64_t end, float log_sum_exp,
                         float diagonal, float* s, float* d_s, const std::uint8_t* bits) {
  const Vector scale = broadcast(task.scale), shift = broadcast(log_sum_exp);
  const Vector drop_scale = broadcast(task.drop_scale), offset = broadcast(diagonal * task.scale);
  const Vector d_scale = drop_scale * scale;
  for_keys(keys, [&](std::int64_t j, auto... some) {
    Vector p = exp_of_negative(load(s + j) * scale - shift);
    if constexpr (sizeof...(some) > 0) p = select((some, ...), p);
    Vector dropped = p * drop_scale, d_p = load(d_s + j) * d_scale;
    if (task.threshold > 0) {
      const IntVector keep = kept(bits + j, task.threshold);
      dropped = select(keep, dropped);
      d_p = select(keep, d_p);
    }
    store(s + j, dropped);
    store(d_s + j, p * (d_p - offset));
  });
  clear_others(keys, end, s);
  clear_others(keys, end, d_s);
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
