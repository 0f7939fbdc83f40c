// Masks and padding in the tensor cores' attention kernels. Tiles outside a mask are skipped: loops begin and end at
// the tiles that the edges of the mask cross. These tiles, and those with padding, are computed like others, and then
// weights and gradients outside become 0. `masked`, whether the mask is limited, is a constant of each kernel, because
// registers are short.
#pragma once

#include "attention_tile.hpp"

namespace bert_hpc::ops::cuda {

/// Number of real keys of a sequence; `otherwise` without padding.
template <class Warp, class T>
BERT_HPC_WARP_CODE int real_keys(const AttentionCall<T>& call, int sequence, int otherwise) {
  return call.real_keys != nullptr ? Warp::load_one(call.real_keys + sequence) : otherwise;
}

/// A score outside the mask. It is finite: a tile may have no key of a row before another tile has.
inline constexpr float masked_score = -1e30f;

/// Keys of neighbouring queries: all of the queries attend to the keys [whole_begin, whole), none to those before
/// `begin` and from `end` on.
struct KeyRange {
  int begin, whole_begin, whole, end;

  /// Whether there are keys outside the mask of a row, or padding, among `count` keys from `key` on.
  BERT_HPC_WARP_CODE bool crosses(int key, int count) const { return whole - key < count || key < whole_begin; }
  /// Whether some query attends to some of these keys.
  BERT_HPC_WARP_CODE bool meets(int key, int count) const { return key < end && begin - key < count; }
};

/// The keys of `rows` queries from row `first` on, in a sequence of `length` keys, of which `real` are real.
template <class Warp, class T>
BERT_HPC_WARP_CODE KeyRange keys_of(const AttentionCall<T>& call, bool masked, int real, int length, int first,
                                    int rows) {
  if (!masked) return {0, 0, real, length};
  if (rows <= 0) return {0, 0, 0, 0};
  const int of_first = Warp::load_one(call.query_position + first);
  const int of_last = Warp::load_one(call.query_position + first + rows - 1);
  const auto begin = [&](int position) {
    const int key = position - call.before < real - 1 ? position - call.before : real - 1;
    return key > 0 ? key : 0;
  };
  const auto end = [&](int position) {
    const int key = position + call.after + 1;
    return key < real ? key : real;
  };
  return {begin(of_first), begin(of_last), end(of_first), end(of_last)};
}

/// The first of a sequence's `count` queries from row `first` on, rounded down to a tile of `Tile`, that attends to
/// keys from `key` on; count or more if there is none.
template <class Warp, int Tile, class T>
BERT_HPC_WARP_CODE int first_query_of(const AttentionCall<T>& call, bool masked, int first, int count, int key) {
  if (!masked) return 0;
  int before = 0;
#pragma unroll 1
  for (int tile = 0; tile * Tile < count; tile += 32) {  // looks at the last query of 32 tiles at a time
    const typename Warp::I32 end = (Warp::lane() + (tile + 1)) * Tile;
    const typename Warp::Mask there = end < count + Tile;
    const typename Warp::I32 last = Warp::select(end < count, end, typename Warp::I32(count)) - 1;
    before += Warp::count(there && Warp::load(call.query_position + first, last, there, 0) + call.after < key);
  }
  return before * Tile;
}

/// The end of those of the `count` queries from row `first` on that attend to keys up to `key`, rounded up to a tile of
/// `Tile` or to count. The last of the `real` keys has queries to the end.
template <class Warp, int Tile, class T>
BERT_HPC_WARP_CODE int query_end_of(const AttentionCall<T>& call, bool masked, int real, int first, int count,
                                    int key) {
  if (!masked || key >= real - 1) return count;
  int tiles = 0;
#pragma unroll 1
  for (int tile = 0; tile * Tile < count; tile += 32) {  // looks at the first query of 32 tiles at a time
    const typename Warp::I32 begin = (Warp::lane() + tile) * Tile;
    const typename Warp::Mask there = begin < count;
    tiles += Warp::count(there && Warp::load(call.query_position + first, begin, there, 0) - call.before <= key);
  }
  return tiles * Tile < count ? tiles * Tile : count;
}

/// Stores `value` for keys from `valid` on, counted from the first key of x.
template <class Warp, int R, int N>
BERT_HPC_WARP_CODE void mask_keys(int valid, float value, typename Warp::F32 (&x)[R][N][4]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[r][n][i] =
            Warp::select(Warp::lane() % 4 * 2 + (8 * n + i % 2) < valid, x[r][n][i], typename Warp::F32(value));
      }
    }
  }
}

/// The same for the keys of x, from `key` on, to which the query of their row does not attend. `keys` is that of the
/// warp's queries, which begin at row `first`, `rows` of them.
template <class Warp, class T, int R, int N>
BERT_HPC_WARP_CODE void mask_keys_of_queries(const AttentionCall<T>& call, bool masked, const KeyRange& keys, int first,
                                             int rows, int key, float value, typename Warp::F32 (&x)[R][N][4]) {
  using I32 = typename Warp::I32;
  if (!masked) return mask_keys<Warp>(keys.whole - key, value, x);
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const I32 row = Warp::lane() / 4 + (16 * r + 8 * half);
      const I32 position = Warp::load(call.query_position + first, row, row < rows, 0), from = position - call.before;
      const I32 end = position + (call.after + 1), column = Warp::lane() % 4 * 2 + key;
      const I32 begin = Warp::select(from < keys.whole_begin, from, I32(keys.whole_begin)) - column;
      const I32 valid = Warp::select(end < keys.end, end, I32(keys.end)) - column;
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          typename Warp::F32& element = x[r][n][2 * half + i];
          element = Warp::select(8 * n + i < valid && begin <= 8 * n + i, element, typename Warp::F32(value));
        }
      }
    }
  }
}

/// With a limited mask, stores 0 in p and d_p, whose rows are keys from `key` on, of `real` real ones, for queries that
/// do not attend to a key: the `rows` queries from row `first` on.
template <class Warp, class T, int R, int N>
BERT_HPC_WARP_CODE void mask_queries_of_keys(const AttentionCall<T>& call, int real, int first, int rows, int key,
                                             typename Warp::F32 (&p)[R][N][4], typename Warp::F32 (&d_p)[R][N][4]) {
  using I32 = typename Warp::I32;
  const int end = rows < 8 * N ? rows : 8 * N;
  if (Warp::load_one(call.query_position + first) + call.after >= key + 16 * R - 1 &&
      Warp::load_one(call.query_position + first + end - 1) - call.before <= key) {
    return;
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const I32 query = Warp::lane() % 4 * 2 + (8 * n + part), row = Warp::lane() / 4 + key;
      const I32 position = Warp::load(call.query_position + first, query, query < rows, 0);
      const I32 last = position + call.after - row, from = position - call.before;
      const I32 begin = Warp::select(from < real - 1, from, I32(real - 1)) - row;
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const typename Warp::Mask seen = last >= 16 * r + 8 * half && begin <= 16 * r + 8 * half;
          typename Warp::F32 &weight = p[r][n][2 * half + part], &slope = d_p[r][n][2 * half + part];
          weight = Warp::select(seen, weight, typename Warp::F32(0.0f));
          slope = Warp::select(seen, slope, typename Warp::F32(0.0f));
        }
      }
    }
  }
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
