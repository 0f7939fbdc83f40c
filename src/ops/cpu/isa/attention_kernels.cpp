// The fused attention of one sequence and head on a CPU, compiled once per instruction set. A block of query rows is
// combined with all keys: its scores, probabilities and their gradients stay in the second-level cache, and every step
// is a small gemm (attention_product.hpp) or a pass over score rows. Keys are packed transposed, so that scores need no
// sums across lanes. Rows of long sequences are packed into panels, because the rows of a fused projection are often a
// power of two apart and would compete for the same cache sets. Formulas: ops/attention.hpp,
// ops/portable_attention.cpp.
//
// With bf16 operands, the two gemms that read nothing else, q·kᵀ and d_out·vᵀ, multiply pairs if the processor does;
// probabilities and score gradients stay floats.
//
// No function of a shared header may be called here (see attention_task.hpp).
#include <cstdint>

#include "../attention_task.hpp"
#include "attention_dropout.hpp"
#include "attention_packing.hpp"
#include "attention_product.hpp"

namespace bert_hpc::ops::cpu {
namespace {

constexpr std::int64_t pack_above = 32;  ///< number of keys above which rows are packed into panels

/// Largest number of query rows in a block: their score rows should leave room in the second-level cache.
constexpr std::int64_t max_keys_of_tall_blocks = 384;
constexpr std::int64_t max_block_rows(std::int64_t keys) {
  return keys <= max_keys_of_tall_blocks ? 48 : 24;
}

/// Stride of score rows in elements: an odd number of cache lines, so that a column of scores is spread over cache
/// sets.
constexpr std::int64_t score_stride(std::int64_t keys) {
  return round_up(keys, 32) + 16;
}

/// Layout of a task's scratch, in floats.
struct Layout {
  std::int64_t keys_transposed, values_transposed;  // (head_dim, keys) in panels
  std::int64_t packed;                              // (keys, head_dim) in panels: values forward, keys backward
  std::int64_t queries_packed, d_out_packed;        // (block rows, head_dim) in panels
  std::int64_t scores, d_scores;                    // (block rows, keys)
  std::int64_t bits;                                // (block rows, keys) 8-bit dropout values
  std::int64_t row_scale;                           // (block rows)
  std::int64_t size;

  Layout(std::int64_t keys, std::int64_t head_dim) {
    const std::int64_t rows = max_block_rows(keys);
    const std::int64_t transposed = round_up(keys, panel) * head_dim, columns = round_up(head_dim, panel);
    std::int64_t used = 0;
    const auto take = [&used](std::int64_t floats) {
      const std::int64_t begin = used;
      used += round_up(floats, 16);
      return begin;
    };
    keys_transposed = take(transposed);
    values_transposed = take(transposed);
    packed = take(keys * columns);
    queries_packed = take(rows * columns);
    d_out_packed = take(rows * columns);
    scores = take(rows * score_stride(keys));
    d_scores = take(rows * score_stride(keys));
    bits = take(bits_bytes(rows, keys) / 4);
    row_scale = take(rows);
    size = used;
  }
};

std::int64_t scratch_floats(std::int64_t keys, std::int64_t head_dim) {
  const std::int64_t most = Layout(keys, head_dim).size;
  if (keys <= max_keys_of_tall_blocks) return most;
  const std::int64_t tall = Layout(max_keys_of_tall_blocks, head_dim).size;  // fewer keys may need more
  return tall > most ? tall : most;
}

bool must_pack(std::int64_t keys, std::int64_t head_dim) {
  return keys > pack_above || head_dim % lanes != 0;
}

inline Vector select(IntVector mask, Vector x) {
  return reinterpret_cast<Vector>(mask & reinterpret_cast<IntVector>(x));
}

/// Number of keys that a query attends to. They come first; padding and keys outside the mask follow.
inline std::int64_t keys_of_query(const AttentionTask& task, std::int64_t query) {
  if (!task.causal) return task.real_keys;
  const std::int64_t seen = task.position[query] + 1;
  return seen < task.real_keys ? seen : task.real_keys;
}

/// Number of keys with which a block of queries is combined, where `last` is the last of its queries.
inline std::int64_t keys_of_block(const AttentionTask& task, std::int64_t last) {
  return task.causal ? keys_of_query(task, last) : task.keys;
}

/// Zeros for keys [keys, end) of a row of scores, of which the vector with the last key before is complete.
inline void clear_rest(std::int64_t keys, std::int64_t end, float* row) {
  for (std::int64_t j = round_up(keys, lanes); j < end; j += lanes) store(row + j, Vector{});
}

/// Result of converting the first `keys` scores of a row of `end` to probabilities, with dropout, not yet divided by
/// their sum, and the others to 0: the factor and log-sum-exp of the row.
struct RowResult {
  float factor, log_sum_exp;
};
inline RowResult softmax_row(const AttentionTask& task, std::int64_t keys, std::int64_t end, float* s,
                             const std::uint8_t* bits) {
  const std::int64_t whole = keys / lanes * lanes, rest = keys - whole;
  const IntVector tail = lanes_below(rest);
  Vector most = broadcast(-__builtin_inff());
  for (std::int64_t j = 0; j < whole; j += lanes) most = larger(most, load(s + j));
  if (rest > 0) most = tail ? larger(most, load(s + whole)) : most;
  const float largest = largest_lane(most);
  const Vector shift = broadcast(largest), scale = broadcast(task.scale);
  Vector sum = {};
  const auto step = [&](std::int64_t j, Vector e) {
    sum += e;
    if (task.threshold > 0) e = select(kept(bits + j, task.threshold), e);
    store(s + j, e);
  };
  for (std::int64_t j = 0; j < whole; j += lanes) step(j, exp_of_negative((load(s + j) - shift) * scale));
  if (rest > 0) step(whole, select(tail, exp_of_negative((load(s + whole) - shift) * scale)));
  clear_rest(keys, end, s);
  const float total = sum_of_lanes(sum);
  return {task.drop_scale / total, largest * task.scale + __builtin_logf(total)};
}

/// Query rows of block `index`, for blocks of similar size.
struct BlockPlan {
  std::int64_t rows;
  explicit BlockPlan(const AttentionTask& task) {
    const std::int64_t most = max_block_rows(task.keys), blocks = (task.queries + most - 1) / most;
    rows = blocks == 0 ? 1 : round_up((task.queries + blocks - 1) / blocks, tile_rows);
  }
};

void forward(const AttentionTask& task) {
  const Layout layout(task.keys, task.head_dim);
  float* at = task.scratch;
  if (task.queries == 0) return;
  const std::int64_t stride = score_stride(task.keys), d = task.head_dim;
  pack_heads(task.k, task.k_pairs, task.keys, d, at + layout.keys_transposed);
  const bool pack = must_pack(task.keys, d) && (task.queries > 2 || d % lanes != 0);
  const Panels v = panels_of(task.v, task.keys, d, pack, at + layout.packed);
  float* scores = at + layout.scores;
  float* factors = at + layout.row_scale;
  std::uint8_t* bits = reinterpret_cast<std::uint8_t*>(at + layout.bits);
  const BlockPlan plan(task);
  for (std::int64_t first = 0; first < task.queries; first += plan.rows) {
    const std::int64_t rows = task.queries - first < plan.rows ? task.queries - first : plan.rows;
    const std::int64_t keys = keys_of_block(task, first + rows - 1), columns = round_up(keys, lanes);
    multiply_heads(task.q, task.q_pairs, first, rows, columns, d, at + layout.keys_transposed, scores, stride);
    if (task.threshold > 0) draw_bits(task, first, rows, keys, bits);
    for (std::int64_t r = 0; r < rows; ++r) {
      const RowResult result =
          softmax_row(task, keys_of_query(task, first + r), keys, scores + r * stride, bits + r * bits_stride(keys));
      factors[r] = result.factor;
      task.log_sum_exp[first + r] = result.log_sum_exp;
    }
    multiply<Into::scale_rows>({rows, d, keys, scores, stride, 1, v.data, v.row, v.next_panel,
                                task.out.data + first * task.out.stride, task.out.stride, factors});
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

/// For the first `keys` of a row of `end`, in place: scores become probabilities after dropout, and d_p = d_out·v
/// becomes d_s / √head_dim. The others become 0.
inline void gradient_row(const AttentionTask& task, std::int64_t keys, std::int64_t end, float log_sum_exp,
                         float diagonal, float* s, float* d_s, const std::uint8_t* bits) {
  const std::int64_t whole = keys / lanes * lanes, rest = keys - whole;
  const Vector scale = broadcast(task.scale), shift = broadcast(log_sum_exp);
  const Vector drop_scale = broadcast(task.drop_scale), offset = broadcast(diagonal * task.scale);
  const Vector d_scale = drop_scale * scale;
  const auto step = [&](std::int64_t j, Vector p) {
    Vector dropped = p * drop_scale, d_p = load(d_s + j) * d_scale;
    if (task.threshold > 0) {
      const IntVector keep = kept(bits + j, task.threshold);
      dropped = select(keep, dropped);
      d_p = select(keep, d_p);
    }
    store(s + j, dropped);
    store(d_s + j, p * (d_p - offset));
  };
  for (std::int64_t j = 0; j < whole; j += lanes) step(j, exp_of_negative(load(s + j) * scale - shift));
  if (rest > 0) step(whole, select(lanes_below(rest), exp_of_negative(load(s + whole) * scale - shift)));
  clear_rest(keys, end, s);
  clear_rest(keys, end, d_s);
}

void set_zero(HeadRowsOut rows, std::int64_t begin, std::int64_t end, std::int64_t columns) {
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) rows.data[r * rows.stride + c] = 0.0f;
  }
}

/// C (keys, head_dim) = or += Xᵀ·B, where X (rows, keys) has the layout of scores.
void multiply_transposed(bool first, const AttentionTask& task, const float* x, std::int64_t rows, std::int64_t keys,
                         const Panels& b, HeadRowsOut c) {
  const Product product{keys,   task.head_dim, rows,         x,      1,        score_stride(task.keys),
                        b.data, b.row,         b.next_panel, c.data, c.stride, nullptr};
  if (first) {
    multiply<Into::replace>(product);
  } else {
    multiply<Into::accumulate>(product);
  }
}

void backward(const AttentionGradientTask& gradient) {
  const AttentionTask& task = gradient.forward;
  const Layout layout(task.keys, task.head_dim);
  float* at = task.scratch;
  const std::int64_t stride = score_stride(task.keys), d = task.head_dim;
  const BlockPlan plan(task);
  // The first block writes the gradients of its keys; those of later keys begin with 0.
  const std::int64_t first_end = plan.rows < task.queries ? plan.rows : task.queries;
  const std::int64_t written = task.queries == 0 ? 0 : keys_of_block(task, first_end - 1);
  set_zero(gradient.d_k, written, task.keys, d);
  set_zero(gradient.d_v, written, task.keys, d);
  if (task.queries == 0) return;
  const bool pack = must_pack(task.keys, d);
  pack_heads(task.k, task.k_pairs, task.keys, d, at + layout.keys_transposed);
  pack_heads(task.v, task.v_pairs, task.keys, d, at + layout.values_transposed);
  const Panels k = panels_of(task.k, task.keys, d, pack, at + layout.packed);
  float* scores = at + layout.scores;
  float* d_scores = at + layout.d_scores;
  std::uint8_t* bits = reinterpret_cast<std::uint8_t*>(at + layout.bits);
  for (std::int64_t first = 0; first < task.queries; first += plan.rows) {
    const std::int64_t rows = task.queries - first < plan.rows ? task.queries - first : plan.rows;
    const std::int64_t keys = keys_of_block(task, first + rows - 1), columns = round_up(keys, lanes);
    const HeadRows q{task.q.data + first * task.q.stride, task.q.stride};
    const HeadRows d_out{gradient.d_out.data + first * gradient.d_out.stride, gradient.d_out.stride};
    multiply_heads(task.q, task.q_pairs, first, rows, columns, d, at + layout.keys_transposed, scores, stride);
    multiply_heads(gradient.d_out, gradient.d_out_pairs, first, rows, columns, d, at + layout.values_transposed,
                   d_scores, stride);
    if (task.threshold > 0) draw_bits(task, first, rows, keys, bits);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float diagonal = dot(d_out.data + r * d_out.stride, task.out.data + (first + r) * task.out.stride, d);
      gradient_row(task, keys_of_query(task, first + r), keys, task.log_sum_exp[first + r], diagonal,
                   scores + r * stride, d_scores + r * stride, bits + r * bits_stride(keys));
    }
    multiply<Into::replace>({rows, d, keys, d_scores, stride, 1, k.data, k.row, k.next_panel,
                             gradient.d_q.data + first * gradient.d_q.stride, gradient.d_q.stride, nullptr});
    const Panels q_panels = panels_of(q, rows, d, pack, at + layout.queries_packed);
    const Panels d_out_panels = panels_of(d_out, rows, d, pack, at + layout.d_out_packed);
    multiply_transposed(first == 0, task, d_scores, rows, keys, q_panels, gradient.d_k);
    multiply_transposed(first == 0, task, scores, rows, keys, d_out_panels, gradient.d_v);
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
