// The gradient of attention's position bias on tensor cores: for each sequence and head the sums of ds (see
// attention_backward.hpp) by distance. A block takes a sequence and a head and loops over tiles of queries and of keys;
// scores and d_p are computed once more, which is two products beside the seven of the split backward pass. ds of a
// warp's tile goes through shared memory, so that the lanes take the keys of one query, whose distances differ; every
// sum is added up by one thread in a fixed order. Distances from the bias's reach on share one sum. D must still be in
// d_q.
#pragma once

#include "attention_backward.hpp"

namespace bert_hpc::ops::cuda {

/// Byte offsets behind those of the backward pass by queries.
template <class T, int D>
struct BiasGradientShape : BackwardShape<T, D> {
  using Base = BackwardShape<T, D>;
  static constexpr int warp_rows = 16 * Base::row_tiles;
  static constexpr int slope_row = 4 * (Base::others + 4);  // bytes of a row of ds
  static constexpr int bias = Base::query_bytes, sums = bias + bias_bytes;
  static constexpr int slopes = sums + Base::warps * bias_bytes;
  static constexpr int shared_bytes = slopes + Base::warps * warp_rows * slope_row;
};

template <class T, int D>
Launch bias_gradient_launch(const AttentionExtents& extents) {
  using Shape = BiasGradientShape<T, D>;
  return {extents.sequences, extents.heads, Shape::threads, Shape::shared_bytes};
}

/// Adds ds (16·R queries, 8·N keys from `key` on) to the warp's sums by distance. `far`: sums of this lane's part
/// of distances from the reach on, in front of the query and behind it.
template <class Warp, class Shape, class T, int R, int N>
BERT_HPC_WARP_CODE void add_slopes(const AttentionCall<T>& call, int first, int rows, int key,
                                   const typename Warp::F32 (&d_s)[R][N][4], typename Warp::F32 (&far)[2]) {
  using I32 = typename Warp::I32;
  using F32 = typename Warp::F32;
  const I32 lane = Warp::lane();
  const int slopes = Shape::slopes + Warp::warp() * Shape::warp_rows * Shape::slope_row;
  const int sums = Shape::sums + Warp::warp() * bias_bytes, reach = call.bias.reach;
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const I32 row = lane / 4 + (16 * r + i / 2 * 8), column = lane % 4 * 2 + (8 * n + i % 2);
        Warp::store_shared(row * Shape::slope_row + column * 4 + slopes, Warp::bits_of(d_s[r][n][i]));
      }
    }
  }
  Warp::sync_warp();
#pragma unroll 1
  for (int row = 0; row < 16 * R && row < rows; ++row) {
    const I32 distance = lane + (key - Warp::load_one(call.query_position + first + row));
    const typename Warp::Mask there = lane < 8 * N, behind = I32(reach) <= distance, before = distance <= I32(-reach);
    const typename Warp::Mask near = I32(-reach) < distance && distance < I32(reach);
    const I32 column = Warp::select(there, lane, I32(0));
    const F32 read = Warp::load_shared_float(column * 4 + (slopes + row * Shape::slope_row));
    const F32 slope = Warp::select(there, read, F32(0.0f));
    far[0] = far[0] + Warp::select(before, slope, F32(0.0f));
    far[1] = far[1] + Warp::select(behind, slope, F32(0.0f));
    const I32 offset = (within_reach<Warp>(reach, distance) + reach) * 4 + sums;
    const F32 sum = Warp::load_shared_float(offset) + slope;
    Warp::sync_warp();
    Warp::store_shared(offset, Warp::bits_of(sum), there && near);
    Warp::sync_warp();
  }
}

template <class Warp, class T, int D>
BERT_HPC_WARP_CODE void attention_bias_gradient(const AttentionCall<T>& call) {
  using Shape = BiasGradientShape<T, D>;
  using I32 = typename Warp::I32;
  using F32 = typename Warp::F32;
  constexpr int R = Shape::row_tiles, N = Shape::others / 8, threads = Shape::threads;
  constexpr int q_tile = 0, d_tile = Shape::own_tile, k_tiles = 2 * Shape::own_tile;
  constexpr int v_tiles = k_tiles + 2 * Shape::other_tile;
  const int sequence = Warp::block_x(), head = Warp::block_y(), column = head * D, reach = call.bias.reach;
  const int keys = Warp::load_one(call.key_offsets + sequence);
  const int length = Warp::load_one(call.key_offsets + sequence + 1) - keys;
  const int queries = Warp::load_one(call.query_offsets + sequence);
  const int count = Warp::load_one(call.query_offsets + sequence + 1) - queries;
  const int real = real_keys<Warp>(call, sequence, length);
  const int own = Warp::warp() * 16 * R, own_sums = Shape::sums + Warp::warp() * bias_bytes;
  const KeyRange all_keys{0, 0, real, length};

  const auto load_keys = [&](int key, int stage) {
    load_tile<Warp, T, D, Shape::others, threads>(k_tiles + stage * Shape::other_tile, call.k, keys + key, length - key,
                                                  column);
    load_tile<Warp, T, D, Shape::others, threads>(v_tiles + stage * Shape::other_tile, call.v, keys + key, length - key,
                                                  column);
    Warp::commit();
  };
  load_bias<Warp, threads>(call, head, Shape::bias);
  Warp::commit();
  for (int first = 0; first < bias_bytes / 4; first += 32) {
    const I32 index = Warp::lane() + first;
    Warp::store_shared(index * 4 + own_sums, typename Warp::U32(0u), index < bias_bytes / 4);
  }
  F32 far[2] = {0.0f, 0.0f};
  for (int start = 0; start < count; start += Shape::rows) {
    const BlockRows mine{sequence, start, count - start < Shape::rows ? count - start : Shape::rows, queries + start};
    const bool has_rows = own < mine.rows;
    const int own_rows = mine.rows - own < 16 * R ? mine.rows - own : 16 * R;
    Warp::sync_block();  // until all warps have finished with the tiles before
    load_tile<Warp, T, D, Shape::rows, threads>(q_tile, call.q, mine.first, mine.rows, column);
    load_tile<Warp, T, D, Shape::rows, threads>(d_tile, call.d_out, mine.first, mine.rows, column);
    load_keys(0, 0);
    QueryNumbers<Warp, R> numbers;
    numbers.template load<T, D>(call, head, mine, own);
    LeftOperand<Warp, T, D, R, true> q, d_out;
    int stage = 0;
    for (int key = 0; key < length; key += Shape::others) {
      typename Warp::U32 kept[R][2];
      kept_words<Warp, Shape::others>(call, head, key, mine, has_rows ? own : mine.rows, kept);
      Warp::template wait<0>();
      Warp::sync_block();
      if (key == 0 && has_rows) {
        q.open(q_tile, own);
        d_out.open(d_tile, own);
      }
      if (key + Shape::others < length) load_keys(key + Shape::others, 1 - stage);
      if (has_rows) {
        F32 s[R][N][4], d_s[R][N][4];
        multiply_by_transposed<Warp, T, D>(q, k_tiles + stage * Shape::other_tile, s);
        multiply_by_transposed<Warp, T, D>(d_out, v_tiles + stage * Shape::other_tile, d_s);
        add_bias_of_queries<Warp>(call, Shape::bias, mine.first + own, own_rows, key, s);
        slopes_of_queries<Warp>(call, s, kept, numbers, d_s);
        if (all_keys.crosses(key, Shape::others)) mask_keys<Warp>(real - key, 0.0f, d_s);
        add_slopes<Warp, Shape>(call, mine.first + own, own_rows, key, d_s, far);
      }
      stage = 1 - stage;
    }
  }
  Warp::template wait<0>();
#pragma unroll
  for (int side = 0; side < 2; ++side) {  // into the sums of the distances -reach and reach
#pragma unroll
    for (int lane_mask = 1; lane_mask < 32; lane_mask *= 2)
      far[side] = far[side] + Warp::exchange(far[side], lane_mask);
    Warp::store_shared(I32(8 * side * reach + own_sums), Warp::bits_of(far[side]), Warp::lane() == 0);
  }
  Warp::sync_block();
  for (int first = 1 - length; first <= length; first += threads) {
    const I32 distance = Warp::thread() + first, near = within_reach<Warp>(reach, distance);
    F32 sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < Shape::warps; ++warp) {
      sum = sum + Warp::load_shared_float((near + reach) * 4 + (Shape::sums + warp * bias_bytes));
    }
    const typename Warp::Mask counts = near == distance && distance < length;
    Warp::store(call.d_bias.row(head) + distance_slot(keys, length, 0), distance, Warp::select(counts, sum, F32(0.0f)),
                distance <= length);
  }
}

}  // namespace bert_hpc::ops::cuda
