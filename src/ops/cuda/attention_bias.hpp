// A position bias (ops/position_bias.hpp) in the tensor cores' attention kernels: a block keeps its head's bias by
// distance in shared memory and adds it to scores. `biased`, whether there is one, is a constant of each kernel,
// because registers are short. No model has both a bias and a limited mask, so no kernel has.
#pragma once

#include "attention_tile.hpp"

namespace bert_hpc::ops::cuda {

/// Largest reach, and bytes of one row of distances.
inline constexpr int most_bias_reach = 128, bias_bytes = 4 * (2 * most_bias_reach + 4);

/// Starts to copy the bias of the distances -reach … reach of a head to shared memory, from byte `at` on.
template <class Warp, int Threads, class T>
BERT_HPC_WARP_CODE void load_bias(const AttentionCall<T>& call, int head, int at) {
  const int count = 2 * call.bias.reach + 1;
  for (int first = 0; first < count; first += Threads) {
    const typename Warp::I32 index = Warp::thread() + first;
    const typename Warp::Mask there = index < count;
    const typename Warp::I32 bucket = Warp::load(call.bias.bucket, index, there, 0);
    Warp::copy4_async(index * 4 + at, call.bias.table.row(head), Warp::wide(bucket), there, there);
  }
}

/// `distance`, or the nearest one that has a bias of its own.
template <class Warp>
BERT_HPC_WARP_CODE typename Warp::I32 within_reach(int reach, typename Warp::I32 distance) {
  using I32 = typename Warp::I32;
  const I32 before = Warp::select(distance < reach, distance, I32(reach));
  return Warp::select(I32(-reach) < before, before, I32(-reach));
}

template <class Warp, class T>
BERT_HPC_WARP_CODE typename Warp::F32 bias_of(const AttentionCall<T>& call, int at, typename Warp::I32 distance) {
  return Warp::load_shared_float((within_reach<Warp>(call.bias.reach, distance) + call.bias.reach) * 4 + at);
}

/// Adds bias / scale to the unscaled products s, whose rows are the `rows` queries from row `first` on and whose
/// columns are keys from `key` on.
template <class Warp, class T, int R, int N>
BERT_HPC_WARP_CODE void add_bias_of_queries(const AttentionCall<T>& call, int at, int first, int rows, int key,
                                            typename Warp::F32 (&s)[R][N][4]) {
  using I32 = typename Warp::I32;
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const I32 row = Warp::lane() / 4 + (16 * r + 8 * half);
      const I32 column = Warp::lane() % 4 * 2 + key - Warp::load(call.query_position + first, row, row < rows, 0);
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          typename Warp::F32& score = s[r][n][2 * half + i];
          score = score + bias_of<Warp>(call, at, column + (8 * n + i)) * call.inverse_scale;
        }
      }
    }
  }
}

/// The same for s whose rows are keys from `key` on, and whose columns are the queries.
template <class Warp, class T, int R, int N>
BERT_HPC_WARP_CODE void add_bias_of_keys(const AttentionCall<T>& call, int at, int first, int rows, int key,
                                         typename Warp::F32 (&s)[R][N][4]) {
  using I32 = typename Warp::I32;
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const I32 query = Warp::lane() % 4 * 2 + (8 * n + part);
      const typename Warp::Mask there = query < rows;  // others are rows of zeros, whose weights must stay finite
      const I32 row = Warp::lane() / 4 + key - Warp::load(call.query_position + first, query, there, 0);
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          typename Warp::F32& score = s[r][n][2 * half + part];
          const typename Warp::F32 bias = bias_of<Warp>(call, at, row + (16 * r + 8 * half)) * call.inverse_scale;
          score = score + Warp::select(there, bias, typename Warp::F32(0.0f));
        }
      }
    }
  }
}

}  // namespace bert_hpc::ops::cuda
