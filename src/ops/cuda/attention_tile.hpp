// Common parts of the tensor cores' attention kernels: the arguments of a call, the mapping of blocks to rows of
// sequences, tiles in shared memory and their fragments.
//
// Kernels are written for one warp, as templates on a class Warp that represents its 32 lanes. On a GPU this is
// CudaWarp (cuda_warp.hpp), where F32, U32, I32 and I64 are numbers of one lane; on a host it is the tests' emulator,
// where they are 32 numbers. Therefore code does not branch on a lane's value but uses Warp::select; branches depend
// only on plain ints, which all lanes share.
//
// T is a 16-bit type, or an operand kind of attention_operands.hpp for matrices of floats.
//
// Fragments are those of mma.m16n8k16 for 16-bit types and of mma.m16n8k8 for TF32 (PTX ISA, "Matrix fragments"). Their
// operands have the same bytes: a lane holds word lane % 4 of 16 bytes of rows lane / 4 and lane / 4 + 8, and of the
// next 16 bytes. Of an accumulator, a lane holds columns 2·(lane % 4) and the next, of rows lane / 4 (elements 0, 1)
// and lane / 4 + 8 (2, 3). Accumulators form an operand of the next product, so probabilities stay in registers (Dao,
// FlashAttention-2, 2023): two adjacent ones, rounded to 16 bits, or one of floats with its columns permuted.
#pragma once

#include <cmath>

#include "attention_operands.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/attention_dropout.hpp"

namespace bert_hpc::ops::cuda {

/// The arguments of the kernels of one call; shapes as in ops/attention.hpp. Rows begin at multiples of 16 bytes.
template <class T>
struct AttentionCall {
  std::int32_t sequences, heads, first_head;
  const std::int32_t *query_offsets, *key_offsets;  // (sequences + 1)
  const std::int32_t* query_position;               // (query rows), ascending within a sequence if there is a mask
  const std::int32_t* real_keys;                    // (sequences); null: all keys are real
  std::int32_t before, after;                       // limits of AttentionMask; read by kernels with a limited mask
  Dropout dropout;
  std::uint32_t threshold;
  float drop_scale;  // 1 / P(keep)
  float scale;       // 1 / √head_dim
  PositionBias bias;
  float inverse_scale;  // √head_dim; read by kernels with a bias
  Tensor<const Stored<T>> q, k, v;
  std::int32_t dropout_tiles;  // number of 64-key tiles per head in the two bit tensors (attention_dropout.hpp)
  Tensor<Stored<T>> out;
  Tensor<float> log_sum_exp;
  Tensor<std::uint64_t> kept;  // (heads · dropout_tiles, query rows), written if there is dropout
  // Backward only. Until d_q is written, the first four bytes per row and head of d_q hold D = d_out · out.
  Tensor<const Stored<T>> saved_out, d_out;
  Tensor<const float> saved_log_sum_exp;
  Tensor<const std::uint64_t> saved_kept;
  Tensor<Stored<T>> d_q, d_k, d_v;
  Tensor<float> d_bias;       // (heads, 2 · key rows)
  std::int32_t planned_rows;  // attention_backward_sequence.hpp only: queries with numbers in shared memory
};

/// The common arguments of forward and backward; kept_rows: rows of the memory for dropout bits.
template <class T>
AttentionCall<T> attention_call(const AttentionInputs& in, std::int64_t kept_rows) {
  AttentionCall<T> call{};
  call.sequences = static_cast<std::int32_t>(in.extents.sequences);
  call.heads = static_cast<std::int32_t>(in.extents.heads);
  call.first_head = static_cast<std::int32_t>(in.extents.first_head);
  call.query_offsets = in.queries.offsets;
  call.key_offsets = in.keys.offsets;
  call.query_position = in.queries.position;
  call.real_keys = in.real_keys;
  call.before = in.mask.before;
  call.after = in.mask.after;
  call.dropout = in.dropout;
  call.threshold = attention_dropout_threshold(in.dropout.probability);
  call.drop_scale = attention_dropout_scale(call.threshold);
  call.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in.extents.head_dim)));
  call.bias = in.bias;
  call.inverse_scale = std::sqrt(static_cast<float>(in.extents.head_dim));
  call.q = in.q.as<Stored<T>>();
  call.k = in.k.as<Stored<T>>();
  call.v = in.v.as<Stored<T>>();
  if (call.threshold == 0 || call.heads == 0) return call;
  call.dropout_tiles = static_cast<std::int32_t>(kept_rows / in.extents.heads);
  core::require(call.dropout_tiles * 64 >= in.extents.max_length,
                "attention: dropout without memory for what it keeps: see dropout_tiles()");
  return call;
}

/// A kernel's grid.
struct Launch {
  std::int64_t blocks_x, blocks_y;
  int threads, shared_bytes;
};

inline constexpr float log2_e = 1.44269504088896340736f;

/// The rows of a block: `rows` of them, beginning at row `first` of all rows and row `start` of their sequence; rows ≤
/// 0: no work.
struct BlockRows {
  int sequence, start, rows, first;
};

/// Number of slots of `tile` rows that suffice for every sequence; those of sequence b begin at slot offsets[b] / tile
/// + b.
constexpr std::int64_t row_slots(std::int64_t rows, std::int64_t sequences, int tile) {
  return rows / tile + sequences;
}

/// The rows of a slot. Finds the last sequence that begins at or before the slot, testing 32 candidates at a time.
template <class Warp>
BERT_HPC_WARP_CODE BlockRows block_rows(const std::int32_t* offsets, int sequences, int tile, int slot) {
  int low = 0, count = sequences;
  while (count > 1) {
    const int step = (count + 31) / 32;
    const typename Warp::I32 b = Warp::lane() * step;
    const typename Warp::Mask inside = b < count;
    const typename Warp::I32 begin = Warp::load(offsets + low, b, inside, 0) / tile + b + low;
    const int before = (Warp::count(inside && begin <= slot) - 1) * step;
    low += before;
    count = count - before < step ? count - before : step;
  }
  const int begin = Warp::load_one(offsets + low), end = Warp::load_one(offsets + low + 1);
  const int start = (slot - begin / tile - low) * tile;
  const int rows = end - begin - start;
  return {low, start, rows < tile ? rows : tile, begin + start};
}

/// Offset in bytes of 16-byte chunk `chunk` of row `row` in a tile with rows of `Bytes`. Chunks are permuted within a
/// row so that the chunks of one column in eight rows, which ldmatrix reads at once, lie in different banks.
///
/// Rows at a distance of 8·i have the same permutation, and the bits of the chunk are bits of the offset: for c and
/// chunk without common bits, offset(row + 8·i, chunk + c) = (offset(row, chunk) ^ 16·c) + 8·i · bytes of a row.
/// Kernels compute one such offset per lane, and all others by an exclusive or and an addition of constants.
template <int Bytes, class I>
BERT_HPC_WARP_CODE I tile_offset(I row, I chunk) {
  constexpr int chunks = Bytes / 16, shift = chunks < 8 ? 1 : 0, mask = (chunks < 8 ? chunks : 8) - 1;
  static_assert(chunks == 4 || chunks == 8 || chunks == 16 || chunks == 32);
  return (row * chunks + (chunk ^ ((row >> shift) & mask))) * 16;
}

/// Index of an element of a matrix: a product of two 32-bit numbers, which is one instruction.
template <class Warp, class T>
BERT_HPC_WARP_CODE typename Warp::I64 element_at(Tensor<T> x, typename Warp::I32 row, typename Warp::I32 column) {
  return Warp::multiply_wide(row, static_cast<int>(x.stride), Warp::wide(column));
}

/// Starts to copy rows [first, first + Rows) of a head into a tile; rows from `valid` on become zeros.
template <class Warp, class T, int D, int Rows, int Threads>
BERT_HPC_WARP_CODE void load_tile(int tile, Tensor<const Stored<T>> from, int first, int valid, int column) {
  constexpr int bytes = row_bytes<T, D>, chunks = bytes / 16, step = Threads / chunks;
  static_assert(Rows % step == 0 && (step % 8 == 0 || (step == 4 && chunks >= 8)));
  const typename Warp::I32 begin = Warp::thread() / chunks, chunk = Warp::thread() % chunks;
  const typename Warp::I32 to = tile_offset<bytes>(begin, chunk) + tile;
#pragma unroll
  for (int row = 0; row < Rows; row += step) {
    const typename Warp::I32 at = row % 8 == 0 ? to : to ^ (16 * (row % 8));  // tiles begin at multiples of 128
    Warp::copy16_async(at + row * bytes, from.data, begin + (row + first), static_cast<int>(from.stride),
                       chunk * chunk_elements<T> + column, begin + row < valid);
  }
}

/// Rows [row, row + 16·R) of a tile as the left operand, with k over 32 bytes of a row at a time. They stay in
/// registers, or are read from the tile each time if registers are short.
template <class Warp, int Bytes, int R, bool Kept>
struct LeftRows {
  using U32 = typename Warp::U32;
  int tile = 0, row = 0;
  U32 kept[Kept ? R : 1][Kept ? Bytes / 32 : 1][4];

  BERT_HPC_WARP_CODE void load(int r, int k, U32 (&a)[4]) const {
    const typename Warp::I32 lane = Warp::lane();
    Warp::load_matrix((tile_offset<Bytes>(lane % 16, lane / 16) ^ (32 * k)) + (tile + (row + 16 * r) * Bytes), a);
  }
  BERT_HPC_WARP_CODE void open(int tile_, int row_) {
    tile = tile_;
    row = row_;
    if constexpr (Kept) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int k = 0; k < Bytes / 32; ++k) load(r, k, kept[r][k]);
      }
    }
  }
  BERT_HPC_WARP_CODE void get(int r, int k, U32 (&a)[4]) const {
    if constexpr (Kept) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = kept[r][k][i];
    } else {
      load(r, k, a);
    }
  }
};

/// LeftRows for floats, whose tiles have too many chunks for a register with the address of each.
template <class Warp, int Bytes>
struct LeftRowsInTile {
  typename Warp::I32 begin = 0;

  BERT_HPC_WARP_CODE void open(int tile, int row) {
    begin = Warp::opaque(tile_offset<Bytes>(Warp::lane() % 16, Warp::lane() / 16) + (tile + row * Bytes));
  }
  BERT_HPC_WARP_CODE void get(int r, int k, typename Warp::U32 (&a)[4]) const {
    Warp::load_matrix((begin ^ (32 * k)) + 16 * r * Bytes, a);
  }
};

template <class Warp, class T, int D, int R, bool Kept>
using LeftOperand = std::conditional_t<stores_floats<T>, LeftRowsInTile<Warp, row_bytes<T, D>>,
                                       LeftRows<Warp, row_bytes<T, D>, R, Kept>>;

template <class F32, int R, int N>
BERT_HPC_WARP_CODE void set_zero(F32 (&c)[R][N][4]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) c[r][n][0] = c[r][n][1] = c[r][n][2] = c[r][n][3] = 0.0f;
  }
}

/// c (16·R, 8·N) = left (16·R, D) · tile (8·N, D)ᵀ
template <class Warp, class T, int D, int R, int N, class Left>
BERT_HPC_WARP_CODE void multiply_by_transposed(const Left& left, int tile, typename Warp::F32 (&c)[R][N][4]) {
  constexpr int bytes = row_bytes<T, D>;
  [[maybe_unused]] constexpr int steps = stores_floats<T> ? 2 : bytes / 32;  // for compilers that unroll
  const typename Warp::I32 lane = Warp::lane();
  typename Warp::I32 begin = tile_offset<bytes>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
  if constexpr (stores_floats<T>) begin = Warp::opaque(begin);  // see LeftRowsInTile
  set_zero(c);
#pragma unroll steps
  for (int k = 0; k < bytes / 32; ++k) {
    Operand<Warp, T, 4> a[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      typename Warp::U32 words[4];
      left.get(r, k, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) a[r].set(i, words[i]);
    }
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      typename Warp::U32 words[4];
      Warp::load_matrix((begin ^ (32 * k)) + (tile + 8 * n * bytes), words);
      Operand<Warp, T, 2> b[2];
#pragma unroll
      for (int i = 0; i < 4; ++i) b[i / 2].set(i % 2, words[i]);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        multiply_add(a[r], b[0], c[r][n]);
        multiply_add(a[r], b[1], c[r][n + 1]);
      }
    }
  }
}

/// Rounds c (16·R, 8·N) to T: pairs[r][n][half] has elements 2·half and 2·half + 1 of an accumulator.
template <class Warp, class T, int R, int N>
BERT_HPC_WARP_CODE void round_to_pairs(const typename Warp::F32 (&c)[R][N][4], typename Warp::U32 (&pairs)[R][N][2]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        pairs[r][n][half] = Warp::template pack<T>(c[r][n][2 * half], c[r][n][2 * half + 1]);
      }
    }
  }
}

/// c (16·R, D) += p (16·R, 8·N) · tile (8·N, D), with p as round_to_pairs() gives it.
template <class Warp, class T, int D, int R, int N>
BERT_HPC_WARP_CODE void multiply_add_pairs(const typename Warp::U32 (&p)[R][N][2], int tile,
                                           typename Warp::F32 (&c)[R][D / 8][4]) {
  const typename Warp::I32 begin = tile_offset<2 * D>(Warp::lane() % 16, Warp::lane() / 16);
#pragma unroll
  for (int k = 0; k < N; k += 2) {
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      typename Warp::U32 b[4];
      Warp::load_matrix_transposed((begin ^ (16 * n)) + (tile + 8 * k * D * 2), b);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const typename Warp::U32 a[4] = {p[r][k][0], p[r][k][1], p[r][k + 1][0], p[r][k + 1][1]};
        Warp::template multiply_add<T>(a, b[0], b[1], c[r][n]);
        Warp::template multiply_add<T>(a, b[2], b[3], c[r][n + 1]);
      }
    }
  }
}

/// c (16·R, D) += p (16·R, 8·N), rounded to T, · tile (8·N, D)
template <class Warp, class T, int D, int R, int N>
requires(!stores_floats<T>) BERT_HPC_WARP_CODE
    void multiply_add_rounded(const typename Warp::F32 (&p)[R][N][4], int tile, typename Warp::F32 (&c)[R][D / 8][4]) {
  typename Warp::U32 pairs[R][N][2];
  round_to_pairs<Warp, T>(p, pairs);
  multiply_add_pairs<Warp, T, D>(pairs, tile, c);
}

/// The same for floats. The inner dimension is permuted so that accumulators p are operands as they are: column j of an
/// operand is row 2·j of eight rows of the tile, column j + 4 row 2·j + 1. Columns of c are permuted so that lanes read
/// 16 bytes at a time: column g of c[·][4·m + i] is column 32·m + 4·g + i of the head.
template <class Warp, class T, int D, int R, int N>
requires(stores_floats<T>) BERT_HPC_WARP_CODE
    void multiply_add_rounded(const typename Warp::F32 (&p)[R][N][4], int tile, typename Warp::F32 (&c)[R][D / 8][4]) {
  constexpr int bytes = row_bytes<T, D>;
  const typename Warp::I32 begin = tile_offset<bytes>(Warp::lane() % 4 * 2, Warp::lane() / 4);
#pragma unroll
  for (int m = 0; m < D / 32; ++m) {
    typename Warp::F32 sums[R][4][4];  // added to c as floats: tensor cores truncate
    set_zero(sums);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      Operand<Warp, T, 4> a[R];
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[r].set(i, Warp::opaque(Warp::bits_of(p[r][k][i % 2 * 2 + i / 2])));
      }
      typename Warp::U32 even[4], odd[4];
      Warp::load_shared16(begin + (tile + 8 * k * bytes + 128 * m), even);
      Warp::load_shared16((begin ^ 16) + (tile + (8 * k + 1) * bytes + 128 * m), odd);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Operand<Warp, T, 2> b;
        b.set(0, even[i]);
        b.set(1, odd[i]);
#pragma unroll
        for (int r = 0; r < R; ++r) multiply_add(a[r], b, sums[r][i]);
      }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int i = 0; i < 16; ++i) c[r][4 * m + i / 4][i % 4] = c[r][4 * m + i / 4][i % 4] + sums[r][i / 4][i % 4];
    }
  }
}

/// Rounds c (16·R, D), a sum of multiply_add_rounded(), with each row multiplied by its `factor`, and writes its first
/// `valid` rows to rows from `first` on of a head, through the tile's rows [row, row + 16·R), which belong to this
/// warp.
template <class Warp, class T, int D, int R>
requires(!stores_floats<T>) BERT_HPC_WARP_CODE
    void store_rows(int tile, int row, const typename Warp::F32 (&c)[R][D / 8][4],
                    const typename Warp::F32 (&factor)[R][2], Tensor<T> to, int first, int valid, int column) {
  using I32 = typename Warp::I32;
  constexpr int chunks = D / 8;
  const I32 lane = Warp::lane(), begin = tile_offset<2 * D>(lane / 4, I32(0)) + lane % 4 * 4;
  Warp::sync_warp();
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < chunks; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const I32 at = (begin ^ (16 * n)) + (tile + (row + 16 * r + 8 * half) * D * 2);
        Warp::store_shared(
            at, Warp::template pack<T>(c[r][n][2 * half] * factor[r][half], c[r][n][2 * half + 1] * factor[r][half]));
      }
    }
  }
  Warp::sync_warp();
#pragma unroll
  for (int i = 0; i < R * chunks / 2; ++i) {
    const I32 item = lane + 32 * i, r = item / chunks, chunk = item % chunks;
    typename Warp::U32 words[4];
    Warp::load_shared16(tile + tile_offset<2 * D>(r + row, chunk), words);
    Warp::store16(to.data, element_at<Warp>(to, r + first, chunk * 8 + column), words, r < valid);
  }
}

/// The same for floats, of which a lane holds eight neighbouring columns: without a tile.
template <class Warp, class T, int D, int R>
requires(stores_floats<T>) BERT_HPC_WARP_CODE
    void store_rows(int, int, const typename Warp::F32 (&c)[R][D / 8][4], const typename Warp::F32 (&factor)[R][2],
                    Tensor<float> to, int first, int valid, int column) {
  const typename Warp::I32 lane = Warp::lane();
#pragma unroll
  for (int i = 0; i < R * D / 8; ++i) {
    const int r = i / (D / 8), m = i / 4 % (D / 32), half = i / 2 % 2, part = i % 2;
    const typename Warp::I32 row = lane / 4 + (16 * r + 8 * half);
    typename Warp::U32 words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) words[w] = Warp::bits_of(c[r][4 * m + w][2 * half + part] * factor[r][half]);
    Warp::store16(to.data, element_at<Warp>(to, row + first, lane % 4 * 8 + (32 * m + 4 * part + column)), words,
                  row < valid);
  }
}

}  // namespace bert_hpc::ops::cuda
