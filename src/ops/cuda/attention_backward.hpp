// Attention's backward kernels on tensor cores. With p_ij = exp(s_ij − lse_i), D_i = d_out_i · out_i and ds_ij = p_ij ·
// (kept_ij · d_out_i · v_j − D_i):
//   d_q_i = Σ_j ds_ij · k_j / √d,  d_k_j = Σ_i ds_ij · q_i / √d,  d_v_j = Σ_i kept_ij · p_ij · d_out_i.
// Separate kernels compute D, then d_k and d_v by tiles of keys, then d_q by tiles of queries. Scores are computed
// twice, which makes seven matrix products. One block computes each sum in a fixed order: every run gives the same
// bits, for sequences of any length. attention_backward_sequence.hpp needs five products, for sequences up to a limited
// length.
#pragma once

#include "attention_bias.hpp"
#include "attention_dropout.hpp"
#include "attention_mask.hpp"

namespace bert_hpc::ops::cuda {

/// Sizes of a block: the rows it owns, row tiles of 16 for each warp, and the rows of the other side, which it loops
/// over tile by tile with two ping-pong buffers in shared memory. Two row tiles halve the shared memory reads per
/// product; heads of 128, and floats, lack the registers for two. Heads of 128 floats lack the shared memory for 32
/// other rows.
template <class T, int D>
struct BackwardShape {
  static constexpr bool floats = stores_floats<T>;
  static constexpr int warps = 4, threads = 32 * warps, others = floats && D == 128 ? 16 : 32;
  static constexpr int row_tiles = D == 128 || floats ? 1 : 2, rows = 16 * row_tiles * warps;
  static constexpr int own_tile = rows * row_bytes<T, D>, other_tile = others * row_bytes<T, D>;
  static constexpr int numbers = 4 * others;  // bytes of one number for each of the other rows
  static constexpr int query_bytes = 2 * own_tile + 4 * other_tile;
  static constexpr int key_bytes = query_bytes + 2 * 2 * numbers;
  static constexpr int blocks = floats && D == 32 ? 3 : 2;  // at least, per multiprocessor
};

/// Number of rows and heads that a block of attention_dots processes.
template <class T, int D>
inline constexpr int dots_per_block = 4 * 512 / row_bytes<T, D>;

template <class T, int D>
Launch dots_launch(const AttentionExtents& extents, const TokenRows& queries) {
  const std::int64_t items = queries.count * extents.heads, per_block = dots_per_block<T, D>;
  return {(items + per_block - 1) / per_block, 1, BackwardShape<T, D>::threads, 0};
}
template <class T, int D>
Launch backward_keys_launch(const AttentionExtents& extents, const TokenRows& keys, bool biased = false) {
  using Shape = BackwardShape<T, D>;
  return {row_slots(keys.count, extents.sequences, Shape::rows), extents.heads, Shape::threads,
          Shape::key_bytes + (biased ? bias_bytes : 0)};
}
template <class T, int D>
Launch backward_queries_launch(const AttentionExtents& extents, const TokenRows& queries, bool biased = false) {
  using Shape = BackwardShape<T, D>;
  return {row_slots(queries.count, extents.sequences, Shape::rows), extents.heads, Shape::threads,
          Shape::query_bytes + (biased ? bias_bytes : 0)};
}

/// Dot product of two rows; each of `lanes` neighbouring lanes has 16 bytes of both rows.
template <class Warp, class T, int lanes>
BERT_HPC_WARP_CODE typename Warp::F32 row_dot(const typename Warp::U32 (&a)[4], const typename Warp::U32 (&b)[4]) {
  typename Warp::F32 sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (stores_floats<T>) {
      sum = sum + Warp::number(a[i]) * Warp::number(b[i]);
    } else {
      sum = sum + Warp::template lower<T>(a[i]) * Warp::template lower<T>(b[i]);
      sum = sum + Warp::template upper<T>(a[i]) * Warp::template upper<T>(b[i]);
    }
  }
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2) sum = sum + Warp::exchange(sum, distance);
  return sum;
}

/// D of a row is stored in the first four bytes of that row and head of d_q: the number of elements in these.
template <class T>
inline constexpr int dot_elements = 4 / static_cast<int>(sizeof(Stored<T>));

/// D = d_out · out of every row and head.
template <class Warp, class T, int D>
BERT_HPC_WARP_CODE void attention_dots(const AttentionCall<T>& call) {
  constexpr int lanes = row_bytes<T, D> / 16, per_warp = 32 / lanes;  // 16 bytes to a lane
  const typename Warp::I32 lane = Warp::lane(), chunk = lane % lanes;
  const typename Warp::I64 item =
      Warp::wide(lane / lanes) + (static_cast<std::int64_t>(Warp::block_x()) * 4 + Warp::warp()) * per_warp;
  const typename Warp::I64 row = item / call.heads, column = item % call.heads * D;
  const typename Warp::Mask valid = row < call.d_out.rows;
  typename Warp::U32 a[4], b[4];
  Warp::load16(call.d_out.data, row * call.d_out.stride + column + Warp::wide(chunk * chunk_elements<T>), a, valid);
  Warp::load16(call.saved_out.data, row * call.saved_out.stride + column + Warp::wide(chunk * chunk_elements<T>), b,
               valid);
  const typename Warp::F32 sum = row_dot<Warp, T, lanes>(a, b);
  Warp::store(reinterpret_cast<float*>(call.d_q.data), (row * call.d_q.stride + column) / dot_elements<T>, sum,
              valid && chunk == 0);
}

/// Starts to copy log-sum-exp and D of a tile's `Rows` queries into two arrays.
template <class Warp, class T, int D, int Rows>
BERT_HPC_WARP_CODE void load_numbers(const AttentionCall<T>& call, int to, int head, int first, int valid) {
  const typename Warp::I32 row = Warp::thread();
  const typename Warp::Mask there = row < Rows, copied = row < valid;
  Warp::copy4_async(to + row * 4, call.saved_log_sum_exp.row(head) + first, Warp::wide(row), there, copied);
  Warp::copy4_async(to + 4 * Rows + row * 4, reinterpret_cast<const float*>(call.d_q.data),
                    (Warp::wide(row + first) * call.d_q.stride + head * D) / dot_elements<T>, there, copied);
}

/// For 16·R keys by 8·N queries: p becomes the summand of d_v, d_p becomes ds. `lse_at` and `dot_at` are shared memory
/// addresses of the queries' numbers. Lane i has in `kept` the kept_word() of query i, in which the keys begin at key
/// `first_key`. All bits are set without dropout.
template <class Warp, class T, int R, int N>
BERT_HPC_WARP_CODE void probabilities_of_keys(const AttentionCall<T>& call, int lse_at, int dot_at,
                                              typename Warp::U32 kept, int first_key, typename Warp::F32 (&p)[R][N][4],
                                              typename Warp::F32 (&d_p)[R][N][4]) {
  using F32 = typename Warp::F32;
  const typename Warp::I32 lane = Warp::lane();
  const float scale_log2 = call.scale * log2_e;
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const typename Warp::I32 query = lane % 4 * 2 + (8 * n + part);
      const F32 lse = Warp::load_shared_float(query * 4 + lse_at), dot = Warp::load_shared_float(query * 4 + dot_at);
      const typename Warp::U32 bits = Warp::from_lane(kept, query) >> (lane / 4 * 4 + first_key / 8);
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          F32& probability = p[r][n][2 * half + part];
          F32& slope = d_p[r][n][2 * half + part];
          probability = Warp::exp2(probability * scale_log2 - lse * log2_e);
          slope = probability * (if_kept<Warp>(slope, bits, 2 * r + half) * call.drop_scale - dot);
          probability = if_kept<Warp>(probability, bits, 2 * r + half);
        }
      }
    }
  }
}

/// d_k and d_v of the block's keys of one head. Queries past the end of the sequence are rows of zeros, which add
/// nothing.
template <class Warp, class T, int D>
BERT_HPC_WARP_CODE void attention_backward_keys(const AttentionCall<T>& call, bool masked, bool biased = false) {
  using Shape = BackwardShape<T, D>;
  using F32 = typename Warp::F32;
  constexpr int R = Shape::row_tiles, N = Shape::others / 8, threads = Shape::threads;
  constexpr int k_tile = 0, v_tile = Shape::own_tile, q_tiles = 2 * Shape::own_tile;
  constexpr int d_tiles = q_tiles + 2 * Shape::other_tile, numbers = d_tiles + 2 * Shape::other_tile;
  const BlockRows mine = block_rows<Warp>(call.key_offsets, call.sequences, Shape::rows, Warp::block_x());
  if (mine.rows <= 0) return;
  const int head = Warp::block_y(), column = head * D;
  const int queries = Warp::load_one(call.query_offsets + mine.sequence);
  const int count = Warp::load_one(call.query_offsets + mine.sequence + 1) - queries;
  const int own = Warp::warp() * 16 * R;
  const bool has_rows = own < mine.rows;
  static_assert(Shape::others <= 32);
  int real = 0;
  if (masked) {
    const int length = Warp::load_one(call.key_offsets + mine.sequence + 1) - (mine.first - mine.start);
    real = real_keys<Warp>(call, mine.sequence, length);
  }
  const int begin = first_query_of<Warp, Shape::others>(call, masked, queries, count, mine.start);
  const int end = query_end_of<Warp, Shape::others>(call, masked, real, queries, count, mine.start + Shape::rows - 1);
  const int own_begin = first_query_of<Warp, Shape::others>(call, masked, queries, count, mine.start + own);
  const int own_end =
      query_end_of<Warp, Shape::others>(call, masked, real, queries, count, mine.start + own + 16 * R - 1);

  const auto load_queries = [&](int query, int stage) {
    load_tile<Warp, T, D, Shape::others, threads>(q_tiles + stage * Shape::other_tile, call.q, queries + query,
                                                  count - query, column);
    load_tile<Warp, T, D, Shape::others, threads>(d_tiles + stage * Shape::other_tile, call.d_out, queries + query,
                                                  count - query, column);
    load_numbers<Warp, T, D, Shape::others>(call, numbers + stage * 2 * Shape::numbers, head, queries + query,
                                            count - query);
    Warp::commit();
  };
  load_tile<Warp, T, D, Shape::rows, threads>(k_tile, call.k, mine.first, mine.rows, column);
  load_tile<Warp, T, D, Shape::rows, threads>(v_tile, call.v, mine.first, mine.rows, column);
  if (biased) load_bias<Warp, threads>(call, head, Shape::key_bytes);
  load_queries(begin, 0);

  F32 d_k[R][D / 8][4], d_v[R][D / 8][4], k_factor[R][2], v_factor[R][2];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    k_factor[r][0] = k_factor[r][1] = call.scale;
    v_factor[r][0] = v_factor[r][1] = call.drop_scale;
  }
  set_zero(d_k);
  set_zero(d_v);
  constexpr bool in_registers = D == 32 && !Shape::floats;
  LeftOperand<Warp, T, D, R, in_registers> k, v;
  int stage = 0;
  for (int query = begin; query < end; query += Shape::others) {
    const bool at_work = has_rows && (!masked || (query >= own_begin && query < own_end));
    typename Warp::U32 kept = ~0u;
    if (call.threshold != 0 && at_work) {  // arrives while products are computed
      const typename Warp::I32 row = Warp::lane() + query;
      kept = kept_word<Warp>(call, head, mine.start + own, queries, row, row < count);
    }
    Warp::template wait<0>();
    Warp::sync_block();
    if ((!in_registers || query == own_begin) && at_work) {
      const int row = in_registers ? own : Warp::opaque(own);
      k.open(k_tile, row);
      v.open(v_tile, row);
    }
    if (query + Shape::others < end) load_queries(query + Shape::others, 1 - stage);
    if (at_work) {
      const int q_tile = q_tiles + stage * Shape::other_tile, d_tile = d_tiles + stage * Shape::other_tile;
      F32 p[R][N][4], d_p[R][N][4];
      multiply_by_transposed<Warp, T, D>(k, q_tile, p);
      multiply_by_transposed<Warp, T, D>(v, d_tile, d_p);
      if (biased) {
        add_bias_of_keys<Warp>(call, Shape::key_bytes, queries + query, count - query, mine.start + own, p);
      }
      const int lse = numbers + stage * 2 * Shape::numbers, dot = lse + Shape::numbers;
      probabilities_of_keys<Warp>(call, lse, dot, kept, own % 32, p, d_p);
      if (masked) mask_queries_of_keys<Warp>(call, real, queries + query, count - query, mine.start + own, p, d_p);
      multiply_add_rounded<Warp, T, D>(p, d_tile, d_v);
      multiply_add_rounded<Warp, T, D>(d_p, q_tile, d_k);
    }
    stage = 1 - stage;
  }
  Warp::template wait<0>();
  Warp::sync_block();  // without queries, the copies of tiles are still in progress
  if (!has_rows) return;
  clear_padding<Warp>(call, mine.sequence, mine.start + own, d_k, d_v);
  store_rows<Warp, T, D, R>(k_tile, own, d_k, k_factor, call.d_k, mine.first + own, mine.rows - own, column);
  store_rows<Warp, T, D, R>(v_tile, own, d_v, v_factor, call.d_v, mine.first + own, mine.rows - own, column);
}

/// Bits of `Keys` keys from `key` on for the warp's queries, as rows of an accumulator, shifted so that bit 4·i + n
/// belongs to column i of the lane's two in accumulator n; all set without dropout.
template <class Warp, int Keys, class T, int R>
BERT_HPC_WARP_CODE void kept_words(const AttentionCall<T>& call, int head, int key, const BlockRows& mine, int own,
                                   typename Warp::U32 (&kept)[R][2]) {
  const typename Warp::I32 lane = Warp::lane();
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      kept[r][half] = ~0u;
      if (call.threshold == 0) continue;
      const typename Warp::I32 row = lane / 4 + (own + 16 * r + 8 * half);
      kept[r][half] = kept_word<Warp>(call, head, key, mine.first, row, row < mine.rows) >>
                      (lane % 4 * 8 + (Keys < 32 ? key % 32 / 8 : 0));
    }
  }
}

/// Log-sum-exp · log2(e) and D of the warp's queries, by row of an accumulator.
template <class Warp, int R>
struct QueryNumbers {
  typename Warp::F32 lse[R][2], dot[R][2];

  template <class T, int D>
  BERT_HPC_WARP_CODE void load(const AttentionCall<T>& call, int head, const BlockRows& mine, int own) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const typename Warp::I32 row = Warp::lane() / 4 + (own + 16 * r + 8 * half);
        const typename Warp::Mask valid = row < mine.rows;
        lse[r][half] = Warp::load(call.saved_log_sum_exp.row(head) + mine.first, row, valid, 0.0f) * log2_e;
        dot[r][half] =
            Warp::load(reinterpret_cast<const float*>(call.d_q.data),
                       (Warp::wide(row + mine.first) * call.d_q.stride + head * D) / dot_elements<T>, valid, 0.0f);
      }
    }
  }
};

/// d_p = d_out·v becomes ds, from the scores s.
template <class Warp, class T, int R, int N>
BERT_HPC_WARP_CODE void slopes_of_queries(const AttentionCall<T>& call, const typename Warp::F32 (&s)[R][N][4],
                                          const typename Warp::U32 (&kept)[R][2], const QueryNumbers<Warp, R>& numbers,
                                          typename Warp::F32 (&d_p)[R][N][4]) {
  using F32 = typename Warp::F32;
  const float scale_log2 = call.scale * log2_e;
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const F32 probability = Warp::exp2(s[r][n][i] * scale_log2 - numbers.lse[r][i / 2]);
        const F32 slope = if_kept<Warp>(d_p[r][n][i], kept[r][i / 2], 4 * (i % 2) + n);
        d_p[r][n][i] = probability * (slope * call.drop_scale - numbers.dot[r][i / 2]);
      }
    }
  }
}

/// d_q of the block's queries of one head.
template <class Warp, class T, int D>
BERT_HPC_WARP_CODE void attention_backward_queries(const AttentionCall<T>& call, bool masked, bool biased = false) {
  using Shape = BackwardShape<T, D>;
  using F32 = typename Warp::F32;
  constexpr int R = Shape::row_tiles, N = Shape::others / 8, threads = Shape::threads;
  constexpr int q_tile = 0, d_tile = Shape::own_tile, k_tiles = 2 * Shape::own_tile;
  constexpr int v_tiles = k_tiles + 2 * Shape::other_tile;
  const BlockRows mine = block_rows<Warp>(call.query_offsets, call.sequences, Shape::rows, Warp::block_x());
  if (mine.rows <= 0) return;
  const int head = Warp::block_y(), column = head * D;
  const int keys = Warp::load_one(call.key_offsets + mine.sequence);
  const int length = Warp::load_one(call.key_offsets + mine.sequence + 1) - keys;
  const int real = real_keys<Warp>(call, mine.sequence, length);
  const int own = Warp::warp() * 16 * R;
  const bool has_rows = own < mine.rows;
  const int own_rows = mine.rows - own < 16 * R ? mine.rows - own : 16 * R;
  const KeyRange all_keys = keys_of<Warp>(call, masked, real, length, mine.first, mine.rows);
  const int begin = all_keys.begin / Shape::others * Shape::others, end = all_keys.end;
  const KeyRange own_keys = keys_of<Warp>(call, masked, real, length, mine.first + own, own_rows);
  const int own_begin = own_keys.begin / Shape::others * Shape::others;

  const auto load_keys = [&](int key, int stage) {
    load_tile<Warp, T, D, Shape::others, threads>(k_tiles + stage * Shape::other_tile, call.k, keys + key, end - key,
                                                  column);
    load_tile<Warp, T, D, Shape::others, threads>(v_tiles + stage * Shape::other_tile, call.v, keys + key, end - key,
                                                  column);
    Warp::commit();
  };
  load_tile<Warp, T, D, Shape::rows, threads>(q_tile, call.q, mine.first, mine.rows, column);
  load_tile<Warp, T, D, Shape::rows, threads>(d_tile, call.d_out, mine.first, mine.rows, column);
  if (biased) load_bias<Warp, threads>(call, head, Shape::query_bytes);
  load_keys(begin, 0);

  static_assert(Shape::others <= 32);
  F32 factor[R][2], d_q[R][D / 8][4];
#pragma unroll
  for (int r = 0; r < R; ++r) factor[r][0] = factor[r][1] = call.scale;
  QueryNumbers<Warp, R> numbers;
  numbers.template load<T, D>(call, head, mine, own);
  set_zero(d_q);

  LeftOperand<Warp, T, D, R, true> q, d_out;
  int stage = 0;
  for (int key = begin; key < end; key += Shape::others) {
    const bool at_work = has_rows && (!masked || own_keys.meets(key, Shape::others));
    typename Warp::U32 kept[R][2];
    kept_words<Warp, Shape::others>(call, head, key, mine, at_work ? own : mine.rows, kept);
    Warp::template wait<0>();
    Warp::sync_block();
    if (key == own_begin && at_work) {
      q.open(q_tile, own);
      d_out.open(d_tile, own);
    }
    if (key + Shape::others < end) load_keys(key + Shape::others, 1 - stage);
    if (at_work) {
      const int k_tile = k_tiles + stage * Shape::other_tile, v_tile = v_tiles + stage * Shape::other_tile;
      F32 p[R][N][4], d_p[R][N][4];
      multiply_by_transposed<Warp, T, D>(q, k_tile, p);
      multiply_by_transposed<Warp, T, D>(d_out, v_tile, d_p);
      if (biased) add_bias_of_queries<Warp>(call, Shape::query_bytes, mine.first + own, own_rows, key, p);
      slopes_of_queries<Warp>(call, p, kept, numbers, d_p);
      if (own_keys.crosses(key, Shape::others)) {
        mask_keys_of_queries<Warp>(call, masked, own_keys, mine.first + own, own_rows, key, 0.0f, d_p);
      }
      multiply_add_rounded<Warp, T, D>(d_p, k_tile, d_q);
    }
    stage = 1 - stage;
  }
  if (!has_rows) return;
  store_rows<Warp, T, D, R>(q_tile, own, d_q, factor, call.d_q, mine.first + own, mine.rows - own, column);
}

}  // namespace bert_hpc::ops::cuda
