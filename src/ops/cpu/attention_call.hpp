// What a call of attention says of one of its tasks, for all kernels of CPUs (attention_task.hpp), and the memory of a
// task's position bias.
#pragma once

#include <cmath>
#include <cstdint>

#include "attention_task.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/attention_dropout.hpp"
#include "distance_row.hpp"

namespace bert_hpc::ops::cpu {

/// Without a position bias, which bias_of() makes.
inline AttentionHead head_of(const AttentionInputs& in, const AttentionResults& results, std::int64_t sequence,
                             std::int64_t head, float* scratch) {
  const std::int64_t first_query = in.queries.offsets[sequence], first_key = in.keys.offsets[sequence];
  const std::uint32_t threshold = attention_dropout_threshold(in.dropout.probability);
  const std::uint64_t sample = threshold > 0 ? static_cast<std::uint64_t>(in.dropout.sample[sequence]) : 0;
  AttentionHead h{};
  h.queries = in.queries.offsets[sequence + 1] - first_query;
  h.keys = in.keys.offsets[sequence + 1] - first_key;
  h.real_keys = in.real_keys != nullptr ? in.real_keys[sequence] : h.keys;
  const AttentionMask mask = in.mask.within(h.keys);
  h.masked = mask.is_limited();
  h.before = mask.before;
  h.after = mask.after;
  h.head_dim = in.extents.head_dim;
  h.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in.extents.head_dim)));
  h.threshold = threshold;
  h.drop_scale = attention_dropout_scale(threshold);
  h.c2 = static_cast<std::uint32_t>(sample);
  h.c3 = in.dropout.site | (static_cast<std::uint32_t>(sample >> 32) << 16);
  h.key0 = in.dropout.key0;
  h.key1 = in.dropout.key1;
  h.first_row = static_cast<std::uint32_t>((in.extents.first_head + head) << 20);
  h.position = threshold > 0 || h.masked || in.bias.table.data != nullptr ? in.queries.position + first_query : nullptr;
  h.log_sum_exp = results.log_sum_exp.row(head) + first_query;
  h.scratch = scratch;
  return h;
}

/// AttentionHead::bias of a task, in memory for DistanceRow; null without a position bias.
inline const float* bias_of(const AttentionInputs& in, const AttentionHead& task, std::int64_t head, float* memory) {
  if (in.bias.table.data == nullptr) return nullptr;
  const DistanceRow row(memory, task.keys);
  row.fill(in.bias, head, 1.0f / task.scale);
  return row.center();
}

}  // namespace bert_hpc::ops::cpu
