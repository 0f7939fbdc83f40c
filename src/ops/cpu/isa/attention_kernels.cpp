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
  std::int64_t scores, d_scores;                    // (block rows, block keys)
  std::int64_t bits;                                // (block rows, block keys) 8-bit dropout values
  std::int64_t row_scale;                           // (block rows)
  std::int64_t size;

  /// A block has at most so many keys, and max_block_rows() of them.
  Layout(std::int64_t keys, std::int64_t block_keys, std::int64_t head_dim) {
    const std::int64_t rows = max_block_rows(block_keys);
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
    scores = take(rows * score_stride(block_keys));
    d_scores = take(rows * score_stride(block_keys));
    bits = take(bits_bytes(rows, block_keys) / 4);
    row_scale = take(rows);
    size = used;
  }
};

std::int64_t scratch_floats(std::int64_t keys, std::int64_t head_dim) {
  const std::int64_t most = Layout(keys, keys, head_dim).size;
  if (keys <= max_keys_of_tall_blocks) return most;
  const std::int64_t tall = Layout(keys, max_keys_of_tall_blocks, head_dim).size;  // fewer keys may need more
  return tall > most ? tall : most;
}

bool must_pack(std::int64_t keys, std::int64_t head_dim) {
  return keys > pack_above || head_dim % lanes != 0;
}

inline Vector select(IntVector mask, Vector x) {
  return reinterpret_cast<Vector>(mask & reinterpret_cast<IntVector>(x));
}

struct KeyRange {
  std::int64_t begin, end;
};

/// The keys that a query attends to (ops::AttentionMask).
inline KeyRange keys_of_query(const AttentionTask& task, std::int64_t query) {
  const std::int64_t real = task.real_keys;
  if (!task.masked) return {0, real};
  const std::int64_t position = task.position[query], first = position - task.before, end = position + task.after + 1;
  const std::int64_t begin = first < real - 1 ? first : real - 1;
  return {begin > 0 ? begin : 0, end < real ? end : real};
}

/// Alignment of a block's first key: to panels of the packed operands, and to keys whose dropout is drawn together.
inline std::int64_t key_alignment(const AttentionTask& task) {
  return task.threshold > 0 ? keys_together : panel;
}

/// The keys with which the queries [first, last] of a block are combined.
inline KeyRange keys_of_block(const AttentionTask& task, std::int64_t first, std::int64_t last) {
  if (!task.masked) return {0, task.keys};
  const std::int64_t alignment = key_alignment(task);
  return {keys_of_query(task, first).begin / alignment * alignment, keys_of_query(task, last).end};
}

/// Calls step(j) for whole vectors of a row's keys and step(j, lanes) for vectors of which only these lanes are keys.
template <class Step>
inline void for_keys(const KeyRange& keys, const Step& step) {
  std::int64_t j = keys.begin / lanes * lanes;
  if (j < keys.begin) {
    step(j, ~lanes_below(keys.begin - j) & lanes_below(keys.end - j));
    j += lanes;
  }
  for (; j + lanes <= keys.end; j += lanes) step(j);
  if (j < keys.end) step(j, lanes_below(keys.end - j));
}

/// Zeros for the vectors of a row of `end` scores that have no key of the range.
inline void clear_others(const KeyRange& keys, std::int64_t end, float* row) {
  for (std::int64_t j = 0; j + lanes <= keys.begin; j += lanes) store(row + j, Vector{});
  for (std::int64_t j = round_up(keys.end, lanes); j < end; j += lanes) store(row + j, Vector{});
}

/// Result of converting the scores of the row's keys, of `end` in all, to probabilities, with dropout, not yet divided
/// by their sum, and the others to 0: the factor and log-sum-exp of the row.
struct RowResult {
  float factor, log_sum_exp;
};
inline RowResult softmax_row(const AttentionTask& task, const KeyRange& keys, std::int64_t end, float* s,
                             const std::uint8_t* bits) {
  Vector most = broadcast(-__builtin_inff());
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
  const float total = sum_of_lanes(sum);
  return {task.drop_scale / total, largest * task.scale + __builtin_logf(total)};
}

/// Number of keys in a block, at most. A window shows only so many to neighbouring queries.
inline std::int64_t max_block_keys(const AttentionTask& task) {
  const std::int64_t fixed = task.before + std::int64_t{task.after} + key_alignment(task);
  const std::int64_t of_short = fixed + max_block_rows(max_keys_of_tall_blocks + 1);
  const bool tall = fixed + max_block_rows(0) <= max_keys_of_tall_blocks;
  const std::int64_t most = tall ? max_keys_of_tall_blocks : of_short;
  return most < task.keys ? most : task.keys;
}

/// Blocks of a task's queries, of similar size.
struct BlockPlan {
  std::int64_t block_keys, rows;
  explicit BlockPlan(const AttentionTask& task) : block_keys(max_block_keys(task)) {
    const std::int64_t most = max_block_rows(block_keys), blocks = (task.queries + most - 1) / most;
    rows = blocks == 0 ? 1 : round_up((task.queries + blocks - 1) / blocks, tile_rows);
  }
};

/// Queries [first, first + rows) and the keys with which they are combined.
struct Block {
  std::int64_t first = 0, rows = 0, first_key = 0, keys = 0;

  Block() = default;
  /// Fewer queries than planned if they are far apart and see more keys than a block has.
  Block(const AttentionTask& task, const BlockPlan& plan, std::int64_t first_query)
      : first(first_query), rows(task.queries - first < plan.rows ? task.queries - first : plan.rows) {
    KeyRange range = keys_of_block(task, first, first + rows - 1);
    while (range.end - range.begin > plan.block_keys) range = keys_of_block(task, first, first + --rows - 1);
    first_key = range.begin;
    keys = range.end - range.begin;
  }
  /// The keys of query first + r, counted from first_key.
  KeyRange keys_of(const AttentionTask& task, std::int64_t r) const {
    const KeyRange range = keys_of_query(task, first + r);
    return {range.begin - first_key, range.end - first_key};
  }
};

static_assert(lanes <= distance_margin, "a block's keys are rounded up to whole vectors");

/// Adds the position bias of query `query` to its scores with a block's keys.
inline void add_bias(const AttentionTask& task, const Block& block, std::int64_t query, float* s) {
  const float* const bias = task.bias + block.first_key - task.position[query];
  for (std::int64_t j = 0; j < block.keys; j += lanes) store(s + j, load(s + j) + load(bias + j));
}

/// Adds the gradients of the query's scores to those of their distances.
inline void add_distances(const AttentionGradientTask& gradient, const Block& block, std::int64_t query,
                          const float* d_s) {
  float* const sums = gradient.d_bias + block.first_key - gradient.forward.position[query];
  for (std::int64_t j = 0; j < block.keys; j += lanes) store(sums + j, load(sums + j) + load(d_s + j));
}

/// Words of a row of a head: pairs of elements, or elements.
inline std::int64_t words_of(const HeadPairs& pairs, std::int64_t head_dim) {
  return pairs.data != nullptr ? head_dim / 2 : head_dim;
}

void forward(const AttentionTask& task) {
  const BlockPlan plan(task);
  const Layout layout(task.keys, plan.block_keys, task.head_dim);
  float* at = task.scratch;
  if (task.queries == 0) return;
  const std::int64_t stride = score_stride(plan.block_keys), d = task.head_dim;
  pack_heads(task.k, task.k_pairs, task.keys, d, at + layout.keys_transposed);
  const bool pack = must_pack(task.keys, d) && (task.queries > 2 || d % lanes != 0);
  const Panels v = panels_of(task.v, task.keys, d, pack, at + layout.packed);
  float* scores = at + layout.scores;
  float* factors = at + layout.row_scale;
  std::uint8_t* bits = reinterpret_cast<std::uint8_t*>(at + layout.bits);
  for (std::int64_t first = 0; first < task.queries;) {
    const Block block(task, plan, first);
    const std::int64_t rows = block.rows, keys = block.keys, columns = round_up(keys, lanes);
    multiply_heads(task.q, task.q_pairs, first, rows, columns, d,
                   at + layout.keys_transposed + block.first_key * words_of(task.k_pairs, d), scores, stride);
    if (task.threshold > 0) draw_bits(task, first, rows, block.first_key, keys, bits);
    for (std::int64_t r = 0; r < rows; ++r) {
      if (task.bias != nullptr) add_bias(task, block, first + r, scores + r * stride);
      const RowResult result =
          softmax_row(task, block.keys_of(task, r), keys, scores + r * stride, bits + r * bits_stride(keys));
      factors[r] = result.factor;
      task.log_sum_exp[first + r] = result.log_sum_exp;
    }
    multiply<Into::scale_rows>({rows, d, keys, scores, stride, 1, v.data + block.first_key * v.row, v.row, v.next_panel,
                                task.out.data + first * task.out.stride, task.out.stride, factors});
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

/// For the row's keys, of `end` in all, in place: scores become probabilities after dropout, and d_p = d_out·v becomes
/// d_s / √head_dim. The others become 0.
inline void gradient_row(const AttentionTask& task, const KeyRange& keys, std::int64_t end, float log_sum_exp,
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

/// C = or += Xᵀ·B for the block's keys, rows of C (keys, head_dim), where X (rows, block's keys) are rows of scores.
void multiply_transposed(bool first, const AttentionTask& task, const float* x, std::int64_t stride, std::int64_t rows,
                         const Block& block, const Panels& b, HeadViewOut c) {
  float* const to = c.data + block.first_key * c.stride;
  const Product product{block.keys, task.head_dim, rows,         x,  1,        stride,
                        b.data,     b.row,         b.next_panel, to, c.stride, nullptr};
  if (first) {
    multiply<Into::replace>(product);
  } else {
    multiply<Into::accumulate>(product);
  }
}

void backward(const AttentionGradientTask& gradient) {
  const AttentionTask& task = gradient.forward;
  const BlockPlan plan(task);
  const Layout layout(task.keys, plan.block_keys, task.head_dim);
  float* at = task.scratch;
  const std::int64_t stride = score_stride(plan.block_keys), d = task.head_dim;
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
  std::uint8_t* bits = reinterpret_cast<std::uint8_t*>(at + layout.bits);
  for (std::int64_t first = 0; first < task.queries;) {
    const Block block(task, plan, first);
    const std::int64_t rows = block.rows, keys = block.keys, columns = round_up(keys, lanes);
    const HeadView q{task.q.data + first * task.q.stride, task.q.stride};
    const HeadView d_out{gradient.d_out.data + first * gradient.d_out.stride, gradient.d_out.stride};
    multiply_heads(task.q, task.q_pairs, first, rows, columns, d,
                   at + layout.keys_transposed + block.first_key * words_of(task.k_pairs, d), scores, stride);
    multiply_heads(gradient.d_out, gradient.d_out_pairs, first, rows, columns, d,
                   at + layout.values_transposed + block.first_key * words_of(task.v_pairs, d), d_scores, stride);
    if (task.threshold > 0) draw_bits(task, first, rows, block.first_key, keys, bits);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float diagonal = dot(d_out.data + r * d_out.stride, task.out.data + (first + r) * task.out.stride, d);
      if (task.bias != nullptr) add_bias(task, block, first + r, scores + r * stride);
      gradient_row(task, block.keys_of(task, r), keys, task.log_sum_exp[first + r], diagonal, scores + r * stride,
                   d_scores + r * stride, bits + r * bits_stride(keys));
      if (gradient.d_bias != nullptr) add_distances(gradient, block, first + r, d_scores + r * stride);
    }
    multiply<Into::replace>({rows, d, keys, d_scores, stride, 1, k.data + block.first_key * k.row, k.row, k.next_panel,
                             gradient.d_q.data + first * gradient.d_q.stride, gradient.d_q.stride, nullptr});
    const Panels q_panels = panels_of(q, rows, d, pack, at + layout.queries_packed);
    const Panels d_out_panels = panels_of(d_out, rows, d, pack, at + layout.d_out_packed);
    multiply_transposed(first == 0, task, d_scores, stride, rows, block, q_panels, gradient.d_k);
    multiply_transposed(first == 0, task, scores, stride, rows, block, d_out_panels, gradient.d_v);
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
