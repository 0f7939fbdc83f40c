// The fused attention of one sequence and head in bf16 on Intel's AMX, in the blocks and parts of
// ../isa/attention_blocks.hpp: all products run in tile registers (tile_block.hpp), softmax and its gradient in
// vectors. Probabilities and score gradients are rounded to bf16 before they are multiplied, sums are fp32, and results
// are rounded once.
//
// Tiles are whole: operands are packed with zeros behind their last rows, columns and terms. The gradients of keys and
// values are computed transposed, d_kᵀ = qᵀ·d_s and d_vᵀ = d_outᵀ·p, so that the right operand is rows of scores.
//
// Bits: a query's products over keys add, for each 32 keys from the sequence's first, one sum of all their terms
// (tile_registers.hpp). Terms that a mask leaves out are zeros, so the bits depend neither on the other queries of a
// block nor on the first key of a window's block.
#include <cstdint>

#include "../isa/attention_rows.hpp"
#include "../isa/operand_blocks.hpp"
#include "attention_tiles.hpp"
#include "tile_block.hpp"

namespace bert_hpc::ops::cpu {
namespace {

/// Blocks of whole rows of tiles; otherwise as for vectors.
constexpr PartSizes forward_sizes = {1024, 64, 64, block_rows}, backward_sizes = {384, 96, 64, block_rows};
static_assert(forward_sizes.queries <= most_queries && backward_sizes.queries <= most_queries);
static_assert(forward_sizes.short_queries <= most_queries && backward_sizes.short_queries <= most_queries);

float dot(const std::uint16_t* a, const std::uint16_t* b, std::int64_t count) {
  using Stored = Reader<Source::bf16>;
  Vector sum = {};
  std::int64_t j = 0;
  for (; j + lanes <= count; j += lanes) sum += Stored::vector(a + j) * Stored::vector(b + j);
  float total = sum_of_lanes(sum);
  for (; j < count; ++j) total += Stored::one(a + j) * Stored::one(b + j);
  return total;
}

/// Scratch of the forward pass.
struct ForwardLayout {
  std::int64_t score_row, probability_row, out_row;  // strides
  std::int64_t keys, values, queries, scores, probabilities, out, bits, size;

  ForwardLayout(std::int64_t all_keys, std::int64_t block_keys, std::int64_t head_dim) {
    const std::int64_t rows = max_queries(forward_sizes, block_keys), part = max_part_keys(forward_sizes, block_keys);
    const std::int64_t columns = round_up(head_dim, block_columns), words = words_of(head_dim);
    Pieces pieces;
    score_row = score_stride(part);
    probability_row = score_stride(words_of(part));
    out_row = columns + 16;
    keys = pieces.take(round_up(all_keys, block_columns) * words);
    values = pieces.take(columns * words_of(all_keys));
    queries = pieces.take(rows * words);
    scores = pieces.take(rows * score_row);
    probabilities = pieces.take(rows * probability_row);
    out = pieces.take(rows * out_row);
    bits = pieces.take(bits_bytes(rows, part) / 4);
    size = pieces.used();
  }
};

/// Scratch of the backward pass.
struct BackwardLayout {
  std::int64_t score_row, d_score_row, d_query_row, d_key_row;  // strides
  std::int64_t keys_transposed, values_transposed, keys, queries, d_out, queries_transposed, d_out_transposed;
  std::int64_t scores, d_scores, d_scores_rounded, probabilities_packed, d_scores_packed;
  std::int64_t d_queries, d_keys, d_values, bits, size;

  BackwardLayout(std::int64_t all_keys, std::int64_t block_keys, std::int64_t head_dim) {
    const std::int64_t rows = max_queries(backward_sizes, block_keys), part = max_part_keys(backward_sizes, block_keys);
    const std::int64_t columns = round_up(head_dim, block_columns), words = words_of(head_dim);
    const std::int64_t key_columns = round_up(all_keys, block_columns), part_columns = round_up(part, block_columns);
    Pieces pieces;
    score_row = score_stride(part);
    d_score_row = score_stride(words_of(part));
    d_query_row = columns + 16;
    d_key_row = score_stride(key_columns);
    keys_transposed = pieces.take(key_columns * words);
    values_transposed = pieces.take(key_columns * words);
    keys = pieces.take(columns * words_of(all_keys));
    queries = pieces.take(rows * words);
    d_out = pieces.take(rows * words);
    queries_transposed = pieces.take(columns * words_of(rows));
    d_out_transposed = pieces.take(columns * words_of(rows));
    scores = pieces.take(rows * score_row);
    d_scores = pieces.take(rows * score_row);
    d_scores_rounded = pieces.take(rows * d_score_row);
    probabilities_packed = pieces.take(part_columns * words_of(rows));
    d_scores_packed = pieces.take(part_columns * words_of(rows));
    d_queries = pieces.take(rows * d_query_row);
    d_keys = pieces.take(columns * d_key_row);
    d_values = pieces.take(columns * d_key_row);
    bits = pieces.take(bits_bytes(rows, part) / 4);
    size = pieces.used();
  }
};

std::int64_t scratch_floats(std::int64_t keys, std::int64_t head_dim) {
  std::int64_t most = 0;
  const std::int64_t all_block_keys[] = {keys, keys_of_short_rows};  // fewer keys may need more
  for (const std::int64_t block_keys : all_block_keys) {
    const std::int64_t most_keys = block_keys < keys ? block_keys : keys;
    const std::int64_t forward = ForwardLayout(keys, most_keys, head_dim).size;
    const std::int64_t backward = BackwardLayout(keys, most_keys, head_dim).size;
    most = forward > most ? forward : most;
    most = backward > most ? backward : most;
  }
  return most;
}

HeadHalves from_row(HeadHalves x, std::int64_t row) {
  return {x.data + row * x.stride, x.stride};
}

/// C (queries of the part, head_dim) = A·B: A has rounded scores of its keys, B the packed rows of all keys.
TileProduct over_keys(const AttentionHead& task, const Block& part, const IndexRange* seen, const float* a,
                      std::int64_t a_row, const float* b, float* c, std::int64_t c_row) {
  return {part.rows,
          task.head_dim,
          words_of(part.keys),
          a,
          a_row,
          block_rows * a_row,
          b + part.first_key / 2 * block_columns,
          panel_words(words_of(task.keys)),
          c,
          c_row,
          nullptr,
          seen};
}

void forward(const HalvesAttentionTask& task) {
  if (task.queries == 0) return;
  const BlockPlan plan(task, forward_sizes);
  const ForwardLayout layout(task.keys, plan.block_keys, task.head_dim);
  float* const at = task.scratch;
  const std::int64_t d = task.head_dim, words = words_of(d);
  float *const scores = at + layout.scores, *const probabilities = at + layout.probabilities;
  float *const queries = at + layout.queries, *const out = at + layout.out;
  std::uint8_t* const bits = reinterpret_cast<std::uint8_t*>(at + layout.bits);
  TileRegisters::configure();
  pack_transposed_rows(task.k, task.keys, d, at + layout.keys);
  pack_rows_as_terms<Source::bf16>(task.v.data, task.v.stride, task.keys, d, at + layout.values);
  RowSum sums[most_queries];
  IndexRange key_ranges[most_queries];
  for (std::int64_t first = 0; first < task.queries;) {
    const Block block(task, plan, first);
    const std::int64_t rows = block.rows;
    for (std::int64_t r = 0; r < rows; ++r) sums[r] = {};
    copy_whole_rows(from_row(task.q, first), rows, d, queries);
    block.for_parts(plan, [&](const Block& part) {
      const std::int64_t keys = part.keys;
      const IndexRange* const seen = seen_keys(task, part, key_ranges);
      const bool begins = part.first_key == block.first_key;
      multiply<false>({rows, keys, words, queries, words, block_rows * words, at + layout.keys + part.first_key * words,
                       panel_words(words), scores, layout.score_row, seen});
      if (task.threshold > 0) draw_bits(task, first, rows, part.first_key, keys, bits);
      for (std::int64_t r = 0; r < rows; ++r) {
        float* const row = scores + r * layout.score_row;
        if (task.bias != nullptr) add_bias(task, part, first + r, row);
        const float before = softmax_row(task, part.keys_of(task, r), keys, row, bits + r * bits_stride(keys), sums[r]);
        if (!begins) scale_row(before, d, out + r * layout.out_row);
        clear_to_whole_tiles(keys, row);
        round_row(keys, row, probabilities + r * layout.probability_row);
      }
      multiply_into(begins, over_keys(task, part, seen, probabilities, layout.probability_row, at + layout.values, out,
                                      layout.out_row));
    });
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const row = out + r * layout.out_row;
      scale_row(task.drop_scale / sums[r].sum, d, row);
      store_halves(row, d, task.out.data + (first + r) * task.out.stride);
      task.log_sum_exp[first + r] = sums[r].largest * task.scale + __builtin_logf(sums[r].sum);
    }
    first += rows;
  }
  TileRegisters::release();
}

void backward(const HalvesAttentionGradientTask& gradient) {
  const HalvesAttentionTask& task = gradient.forward;
  const BlockPlan plan(task, backward_sizes);
  const BackwardLayout layout(task.keys, plan.block_keys, task.head_dim);
  float* const at = task.scratch;
  const std::int64_t d = task.head_dim, words = words_of(d);
  float *const scores = at + layout.scores, *const d_scores = at + layout.d_scores;
  float *const queries = at + layout.queries, *const d_out = at + layout.d_out;
  float *const d_queries = at + layout.d_queries, *const d_rounded = at + layout.d_scores_rounded;
  float *const d_keys = at + layout.d_keys, *const d_values = at + layout.d_values;
  std::uint8_t* const bits = reinterpret_cast<std::uint8_t*>(at + layout.bits);
  // The first block writes the gradients of its keys. If these are not all, sums begin with zeros.
  const bool first_writes = task.queries > 0 && Block(task, plan, 0).keys == task.keys;
  if (!first_writes) {
    set_zero(d_keys, round_up(d, block_columns) * layout.d_key_row);
    set_zero(d_values, round_up(d, block_columns) * layout.d_key_row);
  }
  if (task.queries > 0) {
    pack_transposed_rows(task.k, task.keys, d, at + layout.keys_transposed);
    pack_transposed_rows(task.v, task.keys, d, at + layout.values_transposed);
    pack_rows_as_terms<Source::bf16>(task.k.data, task.k.stride, task.keys, d, at + layout.keys);
  }
  TileRegisters::configure();
  float diagonals[most_queries];
  IndexRange key_ranges[most_queries];
  for (std::int64_t first = 0; first < task.queries;) {
    const Block block(task, plan, first);
    const std::int64_t rows = block.rows, whole_rows = round_up(rows, block_rows);
    const HeadHalves block_d_out = from_row(gradient.d_out, first);
    copy_whole_rows(from_row(task.q, first), rows, d, queries);
    copy_whole_rows(block_d_out, rows, d, d_out);
    pack_whole_rows_transposed(queries, rows, d, at + layout.queries_transposed);
    pack_whole_rows_transposed(d_out, rows, d, at + layout.d_out_transposed);
    for (std::int64_t r = 0; r < rows; ++r) {
      diagonals[r] = dot(block_d_out.data + r * block_d_out.stride, task.out.data + (first + r) * task.out.stride, d);
    }
    block.for_parts(plan, [&](const Block& part) {
      const std::int64_t keys = part.keys, whole_keys = round_up(keys, block_columns);
      const IndexRange* const seen = seen_keys(task, part, key_ranges);
      TileProduct score_product{rows,
                                keys,
                                words,
                                queries,
                                words,
                                block_rows * words,
                                at + layout.keys_transposed + part.first_key * words,
                                panel_words(words),
                                scores,
                                layout.score_row,
                                seen};
      multiply<false>(score_product);
      score_product.a = d_out;
      score_product.b = at + layout.values_transposed + part.first_key * words;
      score_product.c = d_scores;
      multiply<false>(score_product);
      if (task.threshold > 0) draw_bits(task, first, rows, part.first_key, keys, bits);
      for (std::int64_t r = 0; r < rows; ++r) {
        float *const row = scores + r * layout.score_row, *const d_row = d_scores + r * layout.score_row;
        if (task.bias != nullptr) add_bias(task, part, first + r, row);
        gradient_row(task, part.keys_of(task, r), keys, task.log_sum_exp[first + r], diagonals[r], row, d_row,
                     bits + r * bits_stride(keys));
        if (gradient.d_bias != nullptr) add_distances(task, part, first + r, d_row, gradient.d_bias);
        clear_to_whole_tiles(keys, row);
        clear_to_whole_tiles(keys, d_row);
        round_row(keys, d_row, d_rounded + r * layout.d_score_row);
      }
      for (std::int64_t r = rows; r < whole_rows; ++r) {
        set_zero(scores + r * layout.score_row, whole_keys);
        set_zero(d_scores + r * layout.score_row, whole_keys);
      }
      multiply_into(part.first_key == block.first_key, over_keys(task, part, seen, d_rounded, layout.d_score_row,
                                                                 at + layout.keys, d_queries, layout.d_query_row));
      pack_rows_as_terms<Source::fp32_as_bf16>(scores, layout.score_row, whole_rows, whole_keys,
                                               at + layout.probabilities_packed);
      pack_rows_as_terms<Source::fp32_as_bf16>(d_scores, layout.score_row, whole_rows, whole_keys,
                                               at + layout.d_scores_packed);
      TileProduct key_product{d,
                              keys,
                              whole_rows / 2,
                              at + layout.queries_transposed,
                              whole_rows / 2,
                              block_rows * whole_rows / 2,
                              at + layout.d_scores_packed,
                              panel_words(whole_rows / 2),
                              d_keys + part.first_key,
                              layout.d_key_row};
      multiply_into(first == 0 && first_writes, key_product);
      key_product.a = at + layout.d_out_transposed;
      key_product.b = at + layout.probabilities_packed;
      key_product.c = d_values + part.first_key;
      multiply_into(first == 0 && first_writes, key_product);
    });
    for (std::int64_t r = 0; r < rows; ++r) {
      store_halves(d_queries + r * layout.d_query_row, d, gradient.d_q.data + (first + r) * gradient.d_q.stride);
    }
    first += rows;
  }
  TileRegisters::release();
  store_transposed(d_keys, layout.d_key_row, task.keys, d, gradient.d_k);
  store_transposed(d_values, layout.d_key_row, task.keys, d, gradient.d_v);
}

}  // namespace

namespace BERT_HPC_ISA {

HalvesAttentionKernels attention_kernels() {
  return {"AMX", forward, backward, scratch_floats};
}

}  // namespace BERT_HPC_ISA
}  // namespace bert_hpc::ops::cpu
