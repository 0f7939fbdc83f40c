// Parts of the kernel of attention_backward_sequence.hpp: the order of sequences, D, and tiles in shared memory.
#pragma once

#include "attention_backward.hpp"

namespace bert_hpc::ops::cuda {

/// The sequence of number `rank` in descending order of keys times queries, determined by the first 128 threads of the
/// block. Batches of more than 128 sequences have enough blocks to keep the GPU busy to the end, so the result is
/// simply number `rank`. `scratch`: 516 bytes of shared memory.
template <class Warp, class T>
BERT_HPC_WARP_CODE int sequence_of_rank(const AttentionCall<T>& call, int rank, int scratch) {
  constexpr int most = 128;
  if (call.sequences > most) return rank;
  const typename Warp::I32 b = Warp::thread();
  typename Warp::U32 size = 0u;  // different for all sequences; 0 for none
  if (Warp::warp() * 32 < most) {
    const typename Warp::Mask there = b < call.sequences;
    const typename Warp::I32 keys =
        Warp::load(call.key_offsets + 1, b, there, 0) - Warp::load(call.key_offsets, b, there, 0);
    const typename Warp::I32 queries =
        Warp::load(call.query_offsets + 1, b, there, 0) - Warp::load(call.query_offsets, b, there, 0);
    size = Warp::select(there, Warp::bits(keys * queries * most + (most - b)), typename Warp::U32(0u));
    Warp::store_shared(scratch + b * 4, size);
  }
  Warp::sync_block();
  if (Warp::warp() * 32 < call.sequences) {
    typename Warp::I32 before = 0;
#pragma unroll 1
    for (int other = 0; other < call.sequences; other += 4) {
      typename Warp::U32 sizes[4];
      Warp::load_shared16(typename Warp::I32(scratch + other * 4), sizes);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        before = before + Warp::select(size < sizes[i], typename Warp::I32(1), typename Warp::I32(0));
      }
    }
    Warp::store_shared(typename Warp::I32(scratch + most * 4), Warp::bits(b), before == rank && b < call.sequences);
  }
  Warp::sync_block();
  return Warp::uniform(Warp::load_shared(typename Warp::I32(scratch + most * 4)));
}

/// D of `Rows` rows of a head: load() reads the rows, store() later writes the numbers to shared memory.
template <class Warp, class T, int D, int Rows, int Threads>
struct RowDots {
  static constexpr int chunks = D / 8, items = Rows * chunks / Threads;
  static_assert(Rows * chunks % Threads == 0);
  typename Warp::U32 d_out[items][4], out[items][4];

  BERT_HPC_WARP_CODE void load(const AttentionCall<T>& call, int first, int valid, int column) {
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const typename Warp::I32 row = Warp::thread() / chunks + i * (Threads / chunks);
      const typename Warp::I32 from = Warp::thread() % chunks * 8 + column;
      Warp::load16(call.d_out.data, element_at<Warp>(call.d_out, row + first, from), d_out[i], row < valid);
      Warp::load16(call.saved_out.data, element_at<Warp>(call.saved_out, row + first, from), out[i], row < valid);
    }
  }
  BERT_HPC_WARP_CODE void store(int to) const {
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const typename Warp::I32 row = Warp::thread() / chunks + i * (Threads / chunks);
      Warp::store_shared(row * 4 + to, Warp::bits_of(row_dot<Warp, T, chunks>(d_out[i], out[i])));
    }
  }
};

/// Stores ds (32 keys by 32 queries from 32·sub on) in its tile, whose rows are keys; zero for keys from `valid` on.
template <class Warp, class T, class Shape>
BERT_HPC_WARP_CODE void store_slopes(int own, int valid, int sub, typename Warp::F32 (&slopes)[2][4][4]) {
  const typename Warp::I32 lane = Warp::lane();
  const typename Warp::I32 begin = tile_offset<2 * Shape::others>(lane / 4, typename Warp::I32(0)) + lane % 4 * 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const typename Warp::I32 row = lane / 4 + (16 * r + 8 * half);
      const int tile = Shape::slopes + (own + 16 * r + 8 * half) * Shape::others * 2;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const typename Warp::U32 pair = Warp::template pack<T>(slopes[r][n][2 * half], slopes[r][n][2 * half + 1]);
        Warp::store_shared((begin ^ (16 * (4 * sub + n))) + tile,
                           valid < 32 ? Warp::select(row < valid, pair, typename Warp::U32(0u)) : pair);
      }
    }
  }
}

/// Bytes of shared memory for a warp's accumulators, and functions that load and store them; the 16-byte pieces of
/// neighbouring lanes are contiguous.
template <class F32, int R, int N>
BERT_HPC_WARP_CODE constexpr int bytes_of_tiles(const F32 (&)[R][N][4]) {
  return R * N * 512;
}
template <class Warp, int R, int N>
BERT_HPC_WARP_CODE void load_tiles(typename Warp::I32 from, typename Warp::F32 (&c)[R][N][4]) {
#pragma unroll
  for (int i = 0; i < R * N; ++i) Warp::load_shared16(from + 512 * i, c[i / N][i % N]);
}
template <class Warp, int R, int N>
BERT_HPC_WARP_CODE void store_tiles(typename Warp::I32 to, const typename Warp::F32 (&c)[R][N][4]) {
#pragma unroll
  for (int i = 0; i < R * N; ++i) Warp::store_shared16(to + 512 * i, c[i / N][i % N]);
}

}  // namespace bert_hpc::ops::cuda
