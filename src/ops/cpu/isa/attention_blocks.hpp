// How the queries and keys of one sequence and head are divided for the CPU's fused attention: blocks of queries, and,
// if a block has many keys, parts of these. A part's scores, probabilities and their gradients stay in the second-level
// cache. Parts begin at fixed keys of the sequence, so that a query's bits do not depend on the other queries of its
// block. No function of a shared header may be called here (see attention_task.hpp).
#pragma once

#include <cstdint>

#include "../attention_task.hpp"
#include "attention_dropout.hpp"
#include "attention_packing.hpp"

namespace bert_hpc::ops::cpu {
namespace {

/// Blocks of at most so many keys are one part and have at most so many queries: with a head of 64 columns, scores and
/// operands take 0.7 MB.
constexpr std::int64_t keys_of_short_rows = 384, queries_of_short_rows = 48;

/// Parts of other blocks: their keys, a multiple of keys_together, and the block's queries, at most. Forward, longer
/// rows of scores are faster than more of them. Backward, products over the queries should be long, as their results
/// are loaded and stored.
struct PartSizes {
  std::int64_t keys, queries;
  std::int64_t short_queries = queries_of_short_rows;  ///< of blocks that are one part
  std::int64_t query_unit = tile_rows;                 ///< blocks have a multiple of it, but for the last one
};
constexpr PartSizes forward_parts = {1024, 24}, backward_parts = {384, 96};
constexpr std::int64_t most_queries = 96;  ///< of any block
static_assert(queries_of_short_rows <= most_queries && forward_parts.queries <= most_queries &&
              backward_parts.queries <= most_queries);
static_assert(forward_parts.keys % keys_together == 0 && backward_parts.keys % keys_together == 0);
static_assert(keys_together % panel == 0);
/// Keys of a part in the backward pass, at most.
constexpr std::int64_t most_backward_keys =
    keys_of_short_rows > backward_parts.keys ? keys_of_short_rows : backward_parts.keys;

constexpr std::int64_t max_queries(const PartSizes& sizes, std::int64_t block_keys) {
  return block_keys <= keys_of_short_rows ? sizes.short_queries : sizes.queries;
}
constexpr std::int64_t max_part_keys(const PartSizes& sizes, std::int64_t block_keys) {
  return block_keys <= sizes.keys ? block_keys : sizes.keys;
}

/// Stride of score rows in words: an odd number of cache lines, so that a column of scores is spread over cache
/// sets.
constexpr std::int64_t score_stride(std::int64_t keys) {
  return round_up(keys, 32) + 16;
}

/// Takes pieces of a task's scratch, in floats, each aligned to 64 bytes.
class Pieces {
 public:
  std::int64_t take(std::int64_t floats) {
    const std::int64_t begin = used_;
    used_ += round_up(floats, 16);
    return begin;
  }
  std::int64_t used() const { return used_; }

 private:
  std::int64_t used_ = 0;
};

/// Layout of a task's scratch, in floats.
struct Layout {
  std::int64_t keys_transposed, values_transposed;  // (head_dim, keys) in panels
  std::int64_t packed;                              // (keys, head_dim) in panels: values forward, keys backward
  std::int64_t queries_packed, d_out_packed;        // (block's queries, head_dim) in panels
  std::int64_t scores, d_scores;                    // (block's queries, part's keys)
  std::int64_t bits;                                // (block's queries, part's keys) 8-bit dropout values
  std::int64_t row_numbers;                         // (block's queries): forward factors, backward diagonals
  std::int64_t size;

  /// Blocks have at most block_keys keys.
  Layout(const PartSizes& sizes, std::int64_t keys, std::int64_t block_keys, std::int64_t head_dim) {
    const std::int64_t queries = max_queries(sizes, block_keys), part = max_part_keys(sizes, block_keys);
    const std::int64_t transposed = round_up(keys, panel) * head_dim, columns = round_up(head_dim, panel);
    Pieces pieces;
    keys_transposed = pieces.take(transposed);
    values_transposed = pieces.take(transposed);
    packed = pieces.take(keys * columns);
    queries_packed = pieces.take(queries * columns);
    d_out_packed = pieces.take(queries * columns);
    scores = pieces.take(queries * score_stride(part));
    d_scores = pieces.take(queries * score_stride(part));
    bits = pieces.take(bits_bytes(queries, part) / 4);
    row_numbers = pieces.take(queries);
    size = pieces.used();
  }
};

/// The keys that a query attends to (ops::AttentionMask).
inline IndexRange keys_of_query(const AttentionHead& task, std::int64_t query) {
  const std::int64_t real = task.real_keys;
  if (!task.masked) return {0, real};
  const std::int64_t position = task.position[query], first = position - task.before, end = position + task.after + 1;
  const std::int64_t begin = first < real - 1 ? first : real - 1;
  return {begin > 0 ? begin : 0, end < real ? end : real};
}

/// Alignment of a block's first key: to panels of the packed operands, and to keys whose dropout is drawn together.
inline std::int64_t key_alignment(const AttentionHead& task) {
  return task.threshold > 0 ? keys_together : panel;
}

/// The keys with which the queries [first, last] of a block are combined.
inline IndexRange keys_of_block(const AttentionHead& task, std::int64_t first, std::int64_t last) {
  if (!task.masked) return {0, task.keys};
  const std::int64_t alignment = key_alignment(task);
  return {keys_of_query(task, first).begin / alignment * alignment, keys_of_query(task, last).end};
}

/// Number of keys in a block, at most. A window shows only so many to neighbouring queries.
inline std::int64_t max_block_keys(const AttentionHead& task, const PartSizes& sizes) {
  const std::int64_t fixed = task.before + std::int64_t{task.after} + key_alignment(task);
  const bool is_short = fixed + sizes.short_queries <= keys_of_short_rows;
  const std::int64_t most = is_short ? keys_of_short_rows : fixed + sizes.queries;
  return most < task.keys ? most : task.keys;
}

/// Blocks of a task's queries, of similar size.
struct BlockPlan {
  std::int64_t block_keys, queries, part_keys;
  BlockPlan(const AttentionHead& task, const PartSizes& sizes)
      : block_keys(max_block_keys(task, sizes)), part_keys(sizes.keys) {
    const std::int64_t most = max_queries(sizes, block_keys), blocks = (task.queries + most - 1) / most;
    queries = blocks == 0 ? 1 : round_up((task.queries + blocks - 1) / blocks, sizes.query_unit);
  }
  bool has_parts() const { return block_keys > part_keys; }
};

/// Queries [first, first + rows) and the keys with which they are combined, or a part of these.
struct Block {
  std::int64_t first = 0, rows = 0, first_key = 0, keys = 0;

  Block() = default;
  /// Fewer queries than planned if they are far from each other and see more keys than a block has.
  Block(const AttentionHead& task, const BlockPlan& plan, std::int64_t first_query)
      : first(first_query), rows(task.queries - first < plan.queries ? task.queries - first : plan.queries) {
    IndexRange range = keys_of_block(task, first, first + rows - 1);
    while (range.size() > plan.block_keys) range = keys_of_block(task, first, first + --rows - 1);
    first_key = range.begin;
    keys = range.size();
  }

  /// Calls run(part) for its parts in order.
  template <class Run>
  void for_parts(const BlockPlan& plan, const Run& run) const {
    if (!plan.has_parts()) return run(*this);
    const std::int64_t end = first_key + keys;
    for (std::int64_t begin = first_key, next; begin < end; begin = next) {
      next = (begin / plan.part_keys + 1) * plan.part_keys;
      if (next > end) next = end;
      Block part = *this;
      part.first_key = begin;
      part.keys = next - begin;
      run(part);
    }
  }

  /// The keys of query first + r, counted from first_key.
  IndexRange keys_of(const AttentionHead& task, std::int64_t r) const {
    const IndexRange range = keys_of_query(task, first + r);
    const auto here = [this](std::int64_t key) { return key < 0 ? 0 : key < keys ? key : keys; };
    return {here(range.begin - first_key), here(range.end - first_key)};
  }
};

/// Writes the keys that each query of a part sees to ranges (rows), and returns ranges. Without a mask it writes
/// nothing and returns null.
inline const IndexRange* seen_keys(const AttentionHead& task, const Block& part, IndexRange* ranges) {
  if (!task.masked) return nullptr;
  for (std::int64_t r = 0; r < part.rows; ++r) ranges[r] = part.keys_of(task, r);
  return ranges;
}

/// Writes the queries that see each key of a part, counted from its first, to ranges (keys), and returns ranges.
/// `keys`: the result of seen_keys(), whose begins and ends ascend; if it is null, so is the result.
inline const IndexRange* seeing_queries(const Block& part, const IndexRange* keys, IndexRange* ranges) {
  if (keys == nullptr) return nullptr;
  std::int64_t begin = 0, end = 0;
  for (std::int64_t key = 0; key < part.keys; ++key) {
    while (begin < part.rows && keys[begin].end <= key) ++begin;
    while (end < part.rows && keys[end].begin <= key) ++end;
    ranges[key] = {begin, end};
  }
  return ranges;
}

/// Calls step(j) for whole vectors of a row's keys and step(j, lanes) for vectors of which only these lanes are keys.
template <class Step>
inline void for_keys(const IndexRange& keys, const Step& step) {
  std::int64_t j = keys.begin / lanes * lanes;
  if (j < keys.begin) {
    step(j, ~lanes_below(keys.begin - j) & lanes_below(keys.end - j));
    j += lanes;
  }
  for (; j + lanes <= keys.end; j += lanes) step(j);
  if (j < keys.end) step(j, lanes_below(keys.end - j));
}

/// Zeros for the vectors of a row of `end` scores that have no key of the range.
inline void clear_others(const IndexRange& keys, std::int64_t end, float* row) {
  for (std::int64_t j = 0; j + lanes <= keys.begin; j += lanes) store(row + j, Vector{});
  for (std::int64_t j = round_up(keys.end, lanes); j < end; j += lanes) store(row + j, Vector{});
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
