// Padded sequences in the tensor cores' attention kernels: their tiles are computed like others, and then weights and
// gradients of padded keys become 0.
#pragma once

#include "attention_tile.hpp"

namespace bert_hpc::ops::cuda {

/// How many of a sequence's `length` keys are real.
template <class Warp, class T>
BERT_HPC_WARP_CODE int real_keys(const AttentionCall<T>& call, int sequence, int length) {
  return call.real_keys != nullptr ? Warp::load_one(call.real_keys + sequence) : length;
}

/// Stores 0 in the warp's rows of x from `valid` on.
template <class Warp, int R, int N>
BERT_HPC_WARP_CODE void clear_rows(int valid, typename Warp::F32 (&x)[R][N][4]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[r][n][i] =
            Warp::select(Warp::lane() / 4 + (16 * r + i / 2 * 8) < valid, x[r][n][i], typename Warp::F32(0.0f));
      }
    }
  }
}

/// Gradients of a warp's keys, which begin at key `first` of their sequence: 0 for padding.
template <class Warp, class T, int R, int N>
BERT_HPC_WARP_CODE void clear_padding(const AttentionCall<T>& call, int sequence, int first,
                                      typename Warp::F32 (&d_k)[R][N][4], typename Warp::F32 (&d_v)[R][N][4]) {
  if (call.real_keys == nullptr) return;
  const int valid = Warp::load_one(call.real_keys + sequence) - first;
  clear_rows<Warp>(valid, d_k);
  clear_rows<Warp>(valid, d_v);
}

}  // namespace bert_hpc::ops::cuda
