// The fused attention of one sequence and head on a CPU, compiled once per instruction set. A block of query rows is
// combined with its keys, in parts if they are many (Dao et al., "FlashAttention", 2022): a part's scores,
// probabilities and their gradients stay in the second-level cache, and every step is a small gemm
// (attention_product.hpp) or a pass over score rows. Keys are packed transposed, so that scores need no sums across
// lanes. Rows of long sequences are packed into panels, because the rows of a fused projection are often a power of two
// apart and would compete for the same cache sets. Formulas: ops/attention.hpp, ops/portable_attention.cpp.
//
// With bf16 operands, the two gemms that read nothing else, q·kᵀ and d_out·vᵀ, multiply pairs if the processor does;
// probabilities and score gradients stay floats.
//
// No function of a shared header may be called here (see attention_task.hpp).
#include <cstdint>

#include "../attention_task.hpp"
#include "attention_blocks.hpp"
#include "attention_packing.hpp"
#include "attention_product.hpp"
#include "attention_rows.hpp"

namespace bert_hpc::ops::cpu {
namespace {

constexpr std::int64_t pack_above = 32;  ///< number of keys above which rows are packed into panels

std::int64_t scratch_floats(std::int64_t keys, std::int64_t head_dim) {
  std::int64_t most = 0;
  constexpr PartSizes directions[] = {forward_parts, backward_parts};
  const std::int64_t all_block_keys[] = {keys, keys_of_short_rows};  // fewer keys may need more
  for (const PartSizes& sizes : directions) {
    for (const std::int64_t block_keys : all_block_keys) {
      const std::int64_t size = Layout(sizes, keys, block_keys < keys ? block_keys : keys, head_dim).size;
      most = size > most ? size : most;
    }
  }
  return most;
}

bool must_pack(std::int64_t keys, std::int64_t head_dim) {
  return keys > pack_above || head_dim % lanes != 0;
}

/// Words of a row of a head: pairs of elements, or elements.
inline std::int64_t words_of(const HeadPairs& pairs, std::int64_t head_dim) {
  return pairs.data != nullptr ? head_dim / 2 : head_dim;
}

void forward(const AttentionTask& task) {
  const BlockPlan plan(task, forward_parts);
  const Layout layout(forward_parts, task.keys, plan.block_keys, task.head_dim);
  float* at = task.scratch;
  if (task.queries == 0) return;
  const std::int64_t stride = score_stride(max_part_keys(forward_parts, plan.block_keys)), d = task.head_dim;
  pack_heads(task.k, task.k_pairs, task.keys, d, at + layout.keys_transposed);
  const bool pack = must_pack(task.keys, d) && (task.queries > 2 || d % lanes != 0);
  const Panels v = panels_of(task.v, task.keys, d, pack, at + layout.packed);
  float* scores = at + layout.scores;
  float* const factors = at + layout.row_numbers;
  std::uint8_t* bits = reinterpret_cast<std::uint8_t*>(at + layout.bits);
  RowSum sums[most_queries];
  IndexRange key_ranges[most_queries];
  for (std::int64_t first = 0; first < task.queries;) {
    const Block block(task, plan, first);
    const std::int64_t rows = block.rows;
    float* const out = task.out.data + first * task.out.stride;
    for (std::int64_t r = 0; r < rows; ++r) sums[r] = {};
    block.for_parts(plan, [&](const Block& part) {
      const std::int64_t keys = part.keys, columns = round_up(keys, lanes);
      const IndexRange* const seen = seen_keys(task, part, key_ranges);
      const bool begins = part.first_key == block.first_key,
                 ends = part.first_key + keys == block.first_key + block.keys;
      multiply_heads(task.q, task.q_pairs, first, rows, columns, d,
                     at + layout.keys_transposed + part.first_key * words_of(task.k_pairs, d), scores, stride, seen);
      if (task.threshold > 0) draw_bits(task, first, rows, part.first_key, keys, bits);
      for (std::int64_t r = 0; r < rows; ++r) {
        if (task.bias != nullptr) add_bias(task, part, first + r, scores + r * stride);
        const float before =
            softmax_row(task, part.keys_of(task, r), keys, scores + r * stride, bits + r * bits_stride(keys), sums[r]);
        if (!begins) scale_row(before, d, out + r * task.out.stride);
        factors[r] = task.drop_scale / sums[r].sum;
      }
      Product product{rows,
                      d,
                      keys,
                      scores,
                      stride,
                      1,
                      v.data + part.first_key * v.row,
                      v.row,
                      v.next_panel,
                      out,
                      task.out.stride,
                      factors,
                      nullptr,
                      seen};
      if (begins && ends) return multiply<Into::scale_rows>(product);
      if (begins) return multiply<Into::replace>(product);
      multiply<Into::accumulate>(product);
      for (std::int64_t r = 0; r < rows && ends; ++r) scale_row(factors[r], d, out + r * task.out.stride);
    });
    for (std::int64_t r = 0; r < rows; ++r) {
      task.log_sum_exp[first + r] = sums[r].largest * task.scale + __builtin_logf(sums[r].sum);
    }
    first += rows;
  }
}

inline float dot(const float* a, const float* b, std::int64_t count) {
  Vector sum = {};
  std::int64_t j = 0;
  for (; j + lanes <= count; j += lanes) sum += load(a + j) * load(b + j);
  float total = sum_of_lanes(sum);
  for (; j < count; ++j) total += a[j] * b[j];
  return total;
}

void set_zero(HeadViewOut rows, std::int64_t begin, std::int64_t end, std::int64_t columns) {
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) rows.data[r * rows.stride + c] = 0.0f;
  }
}

/// Zeros for the keys that the block does not have.
void set_zero_outside(const Block& block, std::int64_t keys, std::int64_t columns, HeadViewOut rows) {
  set_zero(rows, 0, block.first_key, columns);
  set_zero(rows, block.first_key + block.keys, keys, columns);
}

/// C = A·B for the first product of C, else C += A·B.
inline void multiply_into(bool first, const Product& product) {
  if (first) {
    multiply<Into::replace>(product);
  } else {
    multiply<Into::accumulate>(product);
  }
}

/// C = or += Xᵀ·B for the block's keys, rows of C (keys, head_dim), where X (rows, block's keys) are rows of scores.
void multiply_transposed(bool first, const AttentionTask& task, const float* x, std::int64_t stride, const Block& block,
                         const IndexRange* seeing, const Panels& b, HeadViewOut c) {
  float* const to = c.data + block.first_key * c.stride;
  multiply_into(first, {block.keys, task.head_dim, block.rows, x, 1, stride, b.data, b.row, b.next_panel, to, c.stride,
                        nullptr, nullptr, seeing});
}

void backward(const AttentionGradientTask& gradient) {
  const AttentionTask& task = gradient.forward;
  const BlockPlan plan(task, backward_parts);
  const Layout layout(backward_parts, task.keys, plan.block_keys, task.head_dim);
  float* at = task.scratch;
  const std::int64_t stride = score_stride(max_part_keys(backward_parts, plan.block_keys)), d = task.head_dim;
  // The first block writes the gradients of its keys; those of other keys begin with 0.
  const Block written = task.queries > 0 ? Block(task, plan, 0) : Block{};
  set_zero_outside(written, task.keys, d, gradient.d_k);
  set_zero_outside(written, task.keys, d, gradient.d_v);
  if (task.queries == 0) return;
  const bool pack = must_pack(task.keys, d);
  pack_heads(task.k, task.k_pairs, task.keys, d, at + layout.keys_transposed);
  pack_heads(task.v, task.v_pairs, task.keys, d, at + layout.values_transposed);
  const Panels k = panels_of(task.k, task.keys, d, pack, at + layout.packed);
  float* scores = at + layout.scores;
  float* d_scores = at + layout.d_scores;
  float* const diagonals = at + layout.row_numbers;
  std::uint8_t* bits = reinterpret_cast<std::uint8_t*>(at + layout.bits);
  IndexRange key_ranges[most_queries], query_ranges[most_backward_keys];
  for (std::int64_t first = 0; first < task.queries;) {
    const Block block(task, plan, first);
    const std::int64_t rows = block.rows;
    const HeadView q{task.q.data + first * task.q.stride, task.q.stride};
    const HeadView d_out{gradient.d_out.data + first * gradient.d_out.stride, gradient.d_out.stride};
    float* const d_q = gradient.d_q.data + first * gradient.d_q.stride;
    const Panels q_panels = panels_of(q, rows, d, pack, at + layout.queries_packed);
    const Panels d_out_panels = panels_of(d_out, rows, d, pack, at + layout.d_out_packed);
    for (std::int64_t r = 0; r < rows; ++r) {
      diagonals[r] = dot(d_out.data + r * d_out.stride, task.out.data + (first + r) * task.out.stride, d);
    }
    block.for_parts(plan, [&](const Block& part) {
      const std::int64_t keys = part.keys, columns = round_up(keys, lanes);
      const IndexRange* const seen = seen_keys(task, part, key_ranges);
      const IndexRange* const seeing = seeing_queries(part, seen, query_ranges);
      multiply_heads(task.q, task.q_pairs, first, rows, columns, d,
                     at + layout.keys_transposed + part.first_key * words_of(task.k_pairs, d), scores, stride, seen);
      multiply_heads(gradient.d_out, gradient.d_out_pairs, first, rows, columns, d,
                     at + layout.values_transposed + part.first_key * words_of(task.v_pairs, d), d_scores, stride,
                     seen);
      if (task.threshold > 0) draw_bits(task, first, rows, part.first_key, keys, bits);
      for (std::int64_t r = 0; r < rows; ++r) {
        if (task.bias != nullptr) add_bias(task, part, first + r, scores + r * stride);
        gradient_row(task, part.keys_of(task, r), keys, task.log_sum_exp[first + r], diagonals[r], scores + r * stride,
                     d_scores + r * stride, bits + r * bits_stride(keys));
        if (gradient.d_bias != nullptr) add_distances(task, part, first + r, d_scores + r * stride, gradient.d_bias);
      }
      multiply_into(part.first_key == block.first_key,
                    {rows, d, keys, d_scores, stride, 1, k.data + part.first_key * k.row, k.row, k.next_panel, d_q,
                     gradient.d_q.stride, nullptr, nullptr, seen});
      multiply_transposed(first == 0, task, d_scores, stride, part, seeing, q_panels, gradient.d_k);
      multiply_transposed(first == 0, task, scores, stride, part, seeing, d_out_panels, gradient.d_v);
    });
    first += rows;
  }
}

}  // namespace

namespace BERT_HPC_ISA {

AttentionKernels attention_kernels() {
  constexpr const char* name = lanes == 16 ? "AVX-512" : (lanes == 8 ? "AVX2" : "128 bits");
#if defined(BERT_HPC_PAIR_KERNELS)
  constexpr bool pairs = true;
#else
  constexpr bool pairs = false;
#endif
  return {name, pairs, forward, backward, scratch_floats};
}

}  // namespace BERT_HPC_ISA
}  // namespace bert_hpc::ops::cpu
