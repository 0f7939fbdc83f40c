// Attention's forward kernel on tensor cores: a block takes a tile of queries of one head, 16·R per warp, and loops
// over the tiles of keys with a running maximum and sum per row (Milakov and Gimelshein, 2018; Dao, FlashAttention-2,
// 2023). The next tile of keys is loaded during the product with values, the values during the product with keys.
// Results do not depend on which rows share a tile, so a query's result has the same bits in any selection of rows.
#pragma once

#include "attention_bias.hpp"
#include "attention_dropout.hpp"
#include "attention_mask.hpp"

namespace bert_hpc::ops::cuda {

/// Sizes of a block: R row tiles of 16 for each warp, and the keys of a tile. Two row tiles halve the shared memory
/// reads per product; heads of 128 lack the registers for two. Floats have one row tile, as their products need more
/// time than the reads, and blocks of half the registers hide latencies.
template <class T, int D>
struct ForwardShape {
  static constexpr bool floats = stores_floats<T>;
  static constexpr int warps = 4, row_tiles = D == 128 || floats ? 1 : 2, keys = 64;
  static constexpr int threads = 32 * warps, rows = 16 * row_tiles * warps;
  static constexpr int shared_bytes = (rows + 2 * keys) * row_bytes<T, D>;
  static constexpr int blocks = floats && D == 32 ? 3 : 2;  // at least, per multiprocessor
};

template <class T, int D>
Launch forward_launch(const AttentionExtents& extents, const TokenRows& queries, bool biased = false) {
  using Shape = ForwardShape<T, D>;
  return {row_slots(queries.count, extents.sequences, Shape::rows), extents.heads, Shape::threads,
          Shape::shared_bytes + (biased ? bias_bytes : 0)};
}

/// One step of the online softmax: scores become exp(s − maximum); sums under the previous maximum are scaled down.
template <class Warp, int R, int N, int Columns>
BERT_HPC_WARP_CODE void softmax_step(float scale_log2, typename Warp::F32 (&s)[R][N][4],
                                     typename Warp::F32 (&maximum)[R][2], typename Warp::F32 (&total)[R][2],
                                     typename Warp::F32 (&out)[R][Columns][4]) {
  using F32 = typename Warp::F32;
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      F32 largest = maximum[r][half];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        largest = Warp::max(largest, Warp::max(s[r][n][2 * half], s[r][n][2 * half + 1]));
      }
      largest = Warp::max(largest, Warp::exchange(largest, 1));
      largest = Warp::max(largest, Warp::exchange(largest, 2));
      const F32 shrink = Warp::exp2((maximum[r][half] - largest) * scale_log2), offset = largest * scale_log2;
      maximum[r][half] = largest;
      F32 sum = 0.0f;
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          s[r][n][i] = Warp::exp2(s[r][n][i] * scale_log2 - offset);
          sum = sum + s[r][n][i];
        }
      }
      total[r][half] = total[r][half] * shrink + sum;
#pragma unroll
      for (int n = 0; n < Columns; ++n) {
        out[r][n][2 * half] = out[r][n][2 * half] * shrink;
        out[r][n][2 * half + 1] = out[r][n][2 * half + 1] * shrink;
      }
    }
  }
}

/// s = q·kᵀ/√D, lse = log Σ exp(s), out = dropout(exp(s − lse))·v for the block's queries of one head. Dropped: draws
/// dropout and writes its decisions as bits; a kernel of its own, so that the generator's instructions are in one
/// sequence with those of the product that they do not depend on.
template <class Warp, class T, int D, bool Dropped>
BERT_HPC_WARP_CODE void attention_forward(const AttentionCall<T>& call, bool masked, bool biased = false) {
  using Shape = ForwardShape<T, D>;
  using F32 = typename Warp::F32;
  constexpr int R = Shape::row_tiles, N = Shape::keys / 8, threads = Shape::threads, bytes = row_bytes<T, D>;
  constexpr int q_tile = 0, k_tile = Shape::rows * bytes, v_tile = k_tile + Shape::keys * bytes;
  const BlockRows mine = block_rows<Warp>(call.query_offsets, call.sequences, Shape::rows, Warp::block_x());
  if (mine.rows <= 0) return;
  const int head = Warp::block_y(), column = head * D;
  const int keys = Warp::load_one(call.key_offsets + mine.sequence);
  const int length = Warp::load_one(call.key_offsets + mine.sequence + 1) - keys;
  const int real = real_keys<Warp>(call, mine.sequence, length);
  const int own = Warp::warp() * 16 * R;  // this warp's first row of the tile
  const bool has_rows = own < mine.rows;
  const int own_rows = mine.rows - own < 16 * R ? mine.rows - own : 16 * R;
  const KeyRange all_keys = keys_of<Warp>(call, masked, real, length, mine.first, mine.rows);
  const int begin = all_keys.begin / Shape::keys * Shape::keys, end = all_keys.end;
  const KeyRange own_keys = keys_of<Warp>(call, masked, real, length, mine.first + own, own_rows);
  const int own_begin = own_keys.begin / Shape::keys * Shape::keys;
  const float scale_log2 = call.scale * log2_e;

  std::int64_t sample = 0;
  typename Warp::U32 row_word[R][2] = {};
  if constexpr (Dropped) {
    sample = Warp::load_one(call.dropout.sample + mine.sequence);
    dropout_rows<Warp, T, R>(call, head, mine.first + own, mine.rows - own, row_word);
  }
  F32 maximum[R][2], total[R][2], out[R][D / 8][4];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    maximum[r][0] = maximum[r][1] = -__builtin_inff();
    total[r][0] = total[r][1] = 0.0f;
  }
  set_zero(out);
  LeftOperand<Warp, T, D, R, true> q;
  load_tile<Warp, T, D, Shape::rows, threads>(q_tile, call.q, mine.first, mine.rows, column);
  load_tile<Warp, T, D, Shape::keys, threads>(k_tile, call.k, keys + begin, end - begin, column);
  if (biased) load_bias<Warp, threads>(call, head, Shape::shared_bytes);
  Warp::commit();
  for (int key = begin; key < end; key += Shape::keys) {
    const bool at_work = has_rows && (!masked || own_keys.meets(key, Shape::keys));
    F32 s[R][N][4];
    typename Warp::U32 drawn[R][2];
    Warp::template wait<0>();
    Warp::sync_block();
    load_tile<Warp, T, D, Shape::keys, threads>(v_tile, call.v, keys + key, end - key, column);
    Warp::commit();
    if (at_work) {
      if (key == own_begin) q.open(q_tile, own);
      if constexpr (Dropped) draw<Warp>(call, sample, row_word, key, drawn);
      multiply_by_transposed<Warp, T, D>(q, k_tile, s);
      if (biased) add_bias_of_queries<Warp>(call, Shape::shared_bytes, mine.first + own, own_rows, key, s);
    }
    Warp::template wait<0>();
    Warp::sync_block();
    if (key + Shape::keys < end) {
      load_tile<Warp, T, D, Shape::keys, threads>(k_tile, call.k, keys + key + Shape::keys, end - key - Shape::keys,
                                                  column);
      Warp::commit();
    }
    if (at_work) {
      if (own_keys.crosses(key, Shape::keys)) {
        mask_keys_of_queries<Warp>(call, masked, own_keys, mine.first + own, own_rows, key, masked_score, s);
      }
      softmax_step<Warp>(scale_log2, s, maximum, total, out);
      if constexpr (Dropped) store_drawn<Warp>(call, head, mine.first + own, mine.rows - own, key, drawn);
      if constexpr (Shape::floats) {
        if constexpr (Dropped) drop_drawn<Warp>(drawn, s);
        multiply_add_rounded<Warp, T, D>(s, v_tile, out);
      } else {
        typename Warp::U32 pairs[R][N][2];
        round_to_pairs<Warp, T>(s, pairs);
        if constexpr (Dropped) drop_pairs<Warp>(drawn, pairs);
        multiply_add_pairs<Warp, T, D>(pairs, v_tile, out);
      }
    }
  }
  if (!has_rows) return;

  const typename Warp::I32 lane = Warp::lane();
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      F32 sum = total[r][half];
      sum = sum + Warp::exchange(sum, 1);
      sum = sum + Warp::exchange(sum, 2);
      const typename Warp::I32 row = lane / 4 + (own + 16 * r + 8 * half);
      Warp::store(call.log_sum_exp.row(head) + mine.first, row, maximum[r][half] * call.scale + Warp::log(sum),
                  lane % 4 == 0 && row < mine.rows);
      total[r][half] = F32(call.drop_scale) / sum;
    }
  }
  store_rows<Warp, T, D, R>(q_tile, own, out, total, call.out, mine.first + own, mine.rows - own, column);
}

}  // namespace bert_hpc::ops::cuda
