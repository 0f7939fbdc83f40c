// Attention's backward kernel with five matrix products (attention_backward.hpp has the formulas). A block computes one
// sequence and head: it loops over tiles of keys, 32 per warp, and for each of them over tiles of queries. A warp
// computes s and d_p with its keys as rows, sums d_v and d_k in registers and writes ds to shared memory; then all
// warps together compute d_q = ds · k. The kernel also computes D.
//
// Estimate of the cost of summing d_q, for 12 heads of 64 and 32 sequences of 512 tokens on an H100. With one block for
// each tile of 128 keys, each block would add its part of d_q in device memory, in an order fixed by semaphores.
// Reading and writing a float for each of 64 columns is 512 bytes per query, 4 bytes per pair, 0.4 GB per layer: about
// 75 µs of second-level cache traffic in addition to about 130 µs of computation, and blocks would wait for each other.
// With a whole sequence in one block, d_q is complete in registers if one tile holds all keys. Otherwise its sums stay
// in shared memory, where each thread reads only its own writes: no atomics, one fixed order, the same bits in every
// run. The costs are a limit on the length (512 for heads of 64 with 227 KiB; backward_kernel() in
// attention_choice.hpp) and blocks of different duration, so the longest sequences start first.
//
// Shared memory traffic in bytes per pair for heads of 64: 24 for the first four products, 2 for writing ds, and 8
// (four warps) to 16 (eight warps, tiles of 32 queries) for ds · k; the two split kernels read 36. The tensor cores
// compute five products instead of seven, and each pair needs one exponential instead of two.
#pragma once

#include "attention_backward.hpp"
#include "attention_sequence_parts.hpp"

namespace bert_hpc::ops::cuda {

/// Sizes of a block. Others: queries of a tile. The warps share d_q of a tile by parts of its rows and columns.
template <int D, int Warps, int Others>
struct SequenceShape {
  static constexpr int warps = Warps, threads = 32 * warps, keys = 32 * warps, others = Others;
  static constexpr int blocks = warps == 8 ? 1 : 2;  // per multiprocessor: registers suffice for 8 warps
  /// Four warps are used for sequences of one tile. They lack the registers to read rows for D while they compute d_q,
  /// and there are few rows, so they read all rows at the beginning.
  static constexpr bool one_tile = warps == 4;
  static constexpr int row_parts = D == 32 && warps == 8 ? 4 : 2, column_parts = warps / row_parts;
  static constexpr int row_tiles = others / 16 / row_parts, column_tiles = D / 8 / column_parts;
  // Byte offsets of tiles in shared memory.
  static constexpr int k = 0, v = keys * D * 2, q = 2 * v, d_out = q + others * D * 2, slopes = d_out + others * D * 2;
  static constexpr int lse = slopes + keys * others * 2;

  static constexpr int padded(std::int64_t rows) { return static_cast<int>((rows + others - 1) / others) * others; }
  /// For sequences up to this length: log-sum-exp and D of all queries, and sums of d_q if there are several tiles of
  /// keys.
  static constexpr std::int64_t shared_bytes(std::int64_t max_length) {
    return lse + padded(max_length) * (8 + (max_length > keys ? 4 * std::int64_t{D} : 0));
  }
};

template <class Shape>
Launch backward_sequence_launch(const AttentionExtents& extents, std::int64_t planned_length) {
  return {extents.sequences * extents.heads, 1, Shape::threads, static_cast<int>(Shape::shared_bytes(planned_length))};
}

/// d_q += ds · k for a warp's part of the tile, over keys [0, rows), rounded up to whole warps' shares.
template <class Warp, class T, int D, class Shape>
BERT_HPC_WARP_CODE void multiply_slopes(int rows, typename Warp::F32 (&d_q)[Shape::row_tiles][Shape::column_tiles][4]) {
  const typename Warp::I32 lane = Warp::lane();
  const int chunk = Warp::warp() / Shape::column_parts * 2 * Shape::row_tiles;  // first chunk of the part
  const int column_chunk = Warp::warp() % Shape::column_parts * Shape::column_tiles;
  const typename Warp::I32 left =
      tile_offset<2 * Shape::others>(lane % 8 + lane / 16 * 8, lane / 8 % 2 + chunk) + Shape::slopes;
  const typename Warp::I32 right = tile_offset<2 * D>(lane % 16, lane / 16 + column_chunk) + Shape::k;
#pragma unroll 2
  for (int key = 0; key < rows; key += 32) {
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      typename Warp::U32 a[Shape::row_tiles][4];
#pragma unroll
      for (int r = 0; r < Shape::row_tiles; ++r) {
        Warp::load_matrix_transposed((left ^ (32 * r)) + (key + k) * Shape::others * 2, a[r]);
      }
#pragma unroll
      for (int n = 0; n < Shape::column_tiles; n += 2) {
        typename Warp::U32 b[4];
        Warp::load_matrix_transposed((right ^ (16 * n)) + (key + k) * D * 2, b);
#pragma unroll
        for (int r = 0; r < Shape::row_tiles; ++r) {
          Warp::template multiply_add<T>(a[r], b[0], b[1], d_q[r][n]);
          Warp::template multiply_add<T>(a[r], b[2], b[3], d_q[r][n + 1]);
        }
      }
    }
  }
}

/// Rounds a warp's part of d_q, for the first `valid` rows of the tile, and writes whole sectors of 32 bytes.
template <class Warp, class T, class Shape>
BERT_HPC_WARP_CODE void store_d_q(const AttentionCall<T>& call, int first, int valid, int column,
                                  const typename Warp::F32 (&d_q)[Shape::row_tiles][Shape::column_tiles][4]) {
  const typename Warp::I32 lane = Warp::lane();
  const typename Warp::Mask odd = lane % 2 != 0;
  const int row_part = Warp::warp() / Shape::column_parts, column_part = Warp::warp() % Shape::column_parts;
#pragma unroll
  for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
    for (int n = 0; n < Shape::column_tiles; n += 2) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        typename Warp::U32 pair[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const auto& from = d_q[r][n + i];
          pair[i] = Warp::template pack<T>(from[2 * half] * call.scale, from[2 * half + 1] * call.scale);
        }
        // Even lanes take four columns of the first eight, odd lanes four of the second eight.
        const typename Warp::U32 other = Warp::exchange(Warp::select(odd, pair[0], pair[1]), 1);
        const typename Warp::I32 row = lane / 4 + (16 * (row_part * Shape::row_tiles + r) + 8 * half);
        const typename Warp::I32 to_column =
            lane % 2 * 8 + lane % 4 / 2 * 4 + (8 * (column_part * Shape::column_tiles + n) + column);
        Warp::store8(call.d_q.data, element_at<Warp>(call.d_q, row + first, to_column),
                     Warp::select(odd, other, pair[0]), Warp::select(odd, pair[1], other), row < valid);
      }
    }
  }
}

/// d_q, d_k and d_v of a sequence and head. Padded: sequences have padding (call.real_keys), or may have if masked; a
/// kernel of its own, because registers are short. The mask's limit is behind queries alone.
template <class Warp, class T, int D, class Shape, bool Padded>
BERT_HPC_WARP_CODE void attention_backward_sequence(const AttentionCall<T>& call, bool masked) {
  using F32 = typename Warp::F32;
  constexpr int threads = Shape::threads, others = Shape::others, sub_tile = 32 * D * 2;
  const int head = Warp::block_x() % call.heads, column = head * D;
  const int sequence = sequence_of_rank<Warp>(call, Warp::block_x() / call.heads, Shape::slopes);
  const int first_key = Warp::load_one(call.key_offsets + sequence);
  const int length = Warp::load_one(call.key_offsets + sequence + 1) - first_key;
  const int first_query = Warp::load_one(call.query_offsets + sequence);
  const int count = Warp::load_one(call.query_offsets + sequence + 1) - first_query;
  const int own = Warp::warp() * 32;
  const int lse = Shape::lse, dots = lse + 4 * call.planned_rows, sums = dots + 4 * call.planned_rows;

  const auto load_queries = [&](int at) {
    const int query = Warp::opaque(at);  // keeps partial addresses out of registers
    load_tile<Warp, T, D, others, threads>(Shape::q, call.q, first_query + query, count - query, column);
    load_tile<Warp, T, D, others, threads>(Shape::d_out, call.d_out, first_query + query, count - query, column);
    Warp::commit();
  };
  RowDots<Warp, T, D, others, threads> dot;
  for (int start = 0; start < length; start += Shape::keys) {
    const int rows = Shape::one_tile || length - start < Shape::keys ? length - start : Shape::keys;
    const bool at_work = own < rows;
    int real = rows;  // of the tile
    if constexpr (Padded) {
      real = (masked ? real_keys<Warp>(call, sequence, length) : Warp::load_one(call.real_keys + sequence)) - start;
    }
    const int begin = first_query_of<Warp, others>(call, masked, first_query, count, start);
    const int own_begin = first_query_of<Warp, others>(call, masked, first_query, count, start + own);
    if (start > 0) Warp::sync_block();  // waits until all warps have finished with the previous tile
    load_tile<Warp, T, D, Shape::keys, threads>(Shape::k, call.k, first_key + start, rows, column);
    load_tile<Warp, T, D, Shape::keys, threads>(Shape::v, call.v, first_key + start, rows, column);
    if (start == 0) {
      for (int row = 0; row < Shape::padded(count); row += threads) {
        const typename Warp::I32 at = Warp::thread() + row;
        Warp::copy4_async(lse + at * 4, call.saved_log_sum_exp.row(head) + first_query, Warp::wide(at),
                          at < Shape::padded(count), at < count);
      }
    }
    load_queries(begin);
    for (int query = 0; start == 0 && query < (Shape::one_tile || count < others ? count : others); query += others) {
      dot.load(call, first_query + query, count - query, column);
      dot.store(dots + 4 * query);
    }

    F32 d_k[2][D / 8][4], d_v[2][D / 8][4];
    set_zero(d_k);
    set_zero(d_v);
    constexpr bool in_registers = D == 32;
    LeftRows<Warp, 2 * D, 2, in_registers> k, v;
    for (int query = begin; query < count; query += others) {
      typename Warp::U32 kept[others / 32];
#pragma unroll
      for (int sub = 0; sub < others / 32; ++sub) {
        const typename Warp::I32 row = Warp::lane() + (query + 32 * sub);
        kept[sub] = ~0u;
        if (call.threshold != 0 && at_work) {  // arrives while products are computed
          kept[sub] = kept_word<Warp>(call, head, start + own, first_query, row, row < count);
        }
      }
      Warp::template wait<0>();
      Warp::sync_block();
      if (at_work && (!masked || query >= own_begin)) {
        if (query == own_begin) {
          k.open(Shape::k, own);
          v.open(Shape::v, own);
        }
#pragma unroll 1
        for (int sub = 0; sub < others / 32; ++sub) {
          if (query + 32 * sub >= count) break;
          if (others == 32) {  // not enough registers for the 16 addresses of the left operands
            k.open(Shape::k, Warp::opaque(own));
            v.open(Shape::v, k.row);
          }
          const typename Warp::U32 bits = sub == 0 ? kept[0] : kept[others / 32 - 1];
          const int q_tile = Shape::q + sub * sub_tile, d_tile = Shape::d_out + sub * sub_tile;
          const int numbers = 4 * (query + 32 * sub);
          F32 p[2][4][4], d_p[2][4][4];
          multiply_by_transposed<Warp, T, D>(k, q_tile, p);
          multiply_by_transposed<Warp, T, D>(v, d_tile, d_p);
          probabilities_of_keys<Warp>(call, lse + numbers, dots + numbers, bits, 0, p, d_p);
          if (masked) {
            const int from = query + 32 * sub;
            mask_queries_of_keys<Warp>(call, real + start, first_query + from, count - from, start + own, p, d_p);
          }
          store_slopes<Warp, T, Shape>(own, real - own, sub, d_p);
          multiply_add_rounded<Warp, T, D>(p, d_tile, d_v);
          multiply_add_rounded<Warp, T, D>(d_p, q_tile, d_k);
        }
      }
      Warp::sync_block();
      int end = length;  // of the keys to which the tile's queries attend
      if (masked) {
        const int of_tile = count - query < others ? count - query : others;
        end = Warp::load_one(call.query_position + first_query + query + of_tile - 1) + call.after + 1;
      }
      const bool reads_dots = !Shape::one_tile && start == 0 && query + others < count,
                 last = Shape::one_tile || start + Shape::keys >= end;
      if (query + others < count) load_queries(query + others);
      if (reads_dots) dot.load(call, first_query + query + others, count - query - others, column);
      if (query + Warp::warp() / Shape::column_parts * 16 * Shape::row_tiles < count) {  // it has a row
        F32 d_q[Shape::row_tiles][Shape::column_tiles][4];
        const int part = sums + query * D * 4 + Warp::warp() * bytes_of_tiles(d_q);
        const typename Warp::I32 left = Warp::lane() * 16 + part;
        if (Shape::one_tile || start == 0) {
          set_zero(d_q);
        } else {
          load_tiles<Warp>(left, d_q);
        }
        multiply_slopes<Warp, T, D, Shape>(masked && end - start < rows ? end - start : rows, d_q);
        if (last) {
          store_d_q<Warp, T, Shape>(call, first_query + query, count - query, column, d_q);
        } else {
          store_tiles<Warp>(left, d_q);
        }
      }
      if (reads_dots) dot.store(dots + 4 * (query + others));
    }
    Warp::template wait<0>();
    Warp::sync_block();  // keys are no longer read; without queries, the copies of tiles are still in progress
    if (!at_work) {
      if (Shape::one_tile) return;
      continue;
    }
    if constexpr (Padded) clear_padding<Warp>(call, sequence, start + own, d_k, d_v);
    const F32 k_factor[2][2] = {{call.scale, call.scale}, {call.scale, call.scale}};
    const F32 v_factor[2][2] = {{call.drop_scale, call.drop_scale}, {call.drop_scale, call.drop_scale}};
    store_rows<Warp, T, D, 2>(Shape::k, own, d_k, k_factor, call.d_k, first_key + start + own, rows - own, column);
    store_rows<Warp, T, D, 2>(Shape::v, own, d_v, v_factor, call.d_v, first_key + start + own, rows - own, column);
    if (Shape::one_tile) return;
  }
}

}  // namespace bert_hpc::ops::cuda
