// Dropout of attention probabilities on tensor cores: the forward kernel draws it once and stores one bit per pair of
// query and key for backward.
//
// Estimate of the benefit of stored bits, for an H100 and a layer of 32 sequences of 512 tokens and 12 heads, 100.7
// million pairs: a draw is 40 instructions for 16 pairs and 12 for their comparison, 3.3 per pair, and 100.7e6 · 3.3 /
// (132 multiprocessors · 128 lanes · 1.7 GHz) = 11 µs of issue slots for each kernel that draws. The bits are 12.6 MB;
// writing and reading them once takes 8 µs of the memory's 3 TB/s, which these kernels otherwise leave idle, and about
// 0.7 instructions per pair. A drawing backward kernel would also need decisions by rows of keys, which no lane draws
// alone.
//
// Words of neighbouring queries are contiguous, so that a warp writes and reads whole sectors.
#pragma once

#include "attention_tile.hpp"

namespace bert_hpc::ops::cuda {

/// Compares the four bytes of a word with the threshold, which is below 256: the top bit of each byte is set if the
/// byte reaches it; the other bits are undefined.
template <class Warp>
BERT_HPC_WARP_CODE typename Warp::U32 reached_bytes(typename Warp::U32 word, std::uint32_t threshold) {
  const std::uint32_t low = (threshold & 0x7Fu) * 0x01010101u, either = threshold < 0x80u ? ~0u : 0u;
  // The top bit of a byte of `above`: its other 7 bits are not below those of the threshold. No byte borrows.
  const typename Warp::U32 above = (word | 0x80808080u) - low;
  return (word & above) | ((word | above) & either);
}

/// The top bits of the bytes of four words: bit 8·j + 4 + w of the result is that of byte j of word w. The others are
/// undefined.
template <class Warp>
BERT_HPC_WARP_CODE typename Warp::U32 gather_tops(const typename Warp::U32 (&words)[4]) {
  using U32 = typename Warp::U32;
  constexpr std::uint32_t one = 0x80808080u, two = 0xC0C0C0C0u;
  const U32 first = (words[1] & one) | ((words[0] >> 1) & ~one), second = (words[3] & one) | ((words[2] >> 1) & ~one);
  return (second & two) | ((first >> 2) & ~two);
}

/// x, or zero if the bit is not set.
template <class Warp>
BERT_HPC_WARP_CODE typename Warp::F32 if_kept(typename Warp::F32 x, typename Warp::U32 bits, int bit) {
  return Warp::select((bits & (1u << bit)) != 0u, x, typename Warp::F32(0.0f));
}

/// Generator rows for draw(), for the warp's queries from `first` on, of which `valid` exist: those of
/// the lane's rows lane / 4 and lane / 4 + 8 of each 16.
template <class Warp, class T, int R>
BERT_HPC_WARP_CODE void dropout_rows(const AttentionCall<T>& call, int head, int first, int valid,
                                     typename Warp::U32 (&row_word)[R][2]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const typename Warp::I32 row = Warp::lane() / 4 + (16 * r + 8 * half);
      const typename Warp::I32 position = Warp::load(call.query_position + first, row, row < valid, 0);
      row_word[r][half] = Warp::bits(position) + (static_cast<std::uint32_t>(call.first_head + head) << 20);
    }
  }
}

/// Bit of drawn decisions for key 8·n + lane % 4 · 2 + i of 64.
constexpr int drawn_bit(int n, int i) {
  return n / 4 * 16 + 8 * i + 4 + n % 4;
}

/// Draws for 16·R queries by 64 keys from `key`, a multiple of 64, on. Every lane draws the decisions of its elements
/// of an accumulator: bit drawn_bit(n, i) of drawn[r][half] is set if element 2·half + i of accumulator n is kept. The
/// other bits are undefined.
template <class Warp, class T, int R>
BERT_HPC_WARP_CODE void draw(const AttentionCall<T>& call, std::int64_t sample,
                             const typename Warp::U32 (&row_word)[R][2], int key, typename Warp::U32 (&drawn)[R][2]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      typename Warp::U32 words[4];
      Warp::dropout_bits(call.dropout, sample, row_word[r][half], Warp::bits(Warp::lane() % 4 + key / 16), words);
#pragma unroll
      for (int word = 0; word < 4; ++word) words[word] = reached_bytes<Warp>(words[word], call.threshold);
      drawn[r][half] = gather_tops<Warp>(words);
    }
  }
}

/// Writes the bits of 16·R queries from `first` on, of which `valid` exist. Lanes of a quad exchange bytes, so that
/// each has 32 keys of one query.
template <class Warp, class T, int R>
BERT_HPC_WARP_CODE void store_drawn(const AttentionCall<T>& call, int head, int first, int valid, int key,
                                    const typename Warp::U32 (&drawn)[R][2]) {
  using U32 = typename Warp::U32;
  constexpr std::uint32_t odd_bytes = 0xF000F000u;
  auto* const to = reinterpret_cast<std::uint32_t*>(call.kept.row(head * call.dropout_tiles + key / 64) + first);
  const typename Warp::I32 lane = Warp::lane(), upper_keys = lane % 2, lower_half = lane % 4 / 2;
  const U32 of_keys = Warp::select(upper_keys == 1, U32(0x3715u), U32(0x6240u));
  const U32 of_rows = Warp::select(lower_half == 1, U32(0x3276u), U32(0x5410u));
#pragma unroll
  for (int r = 0; r < R; ++r) {
    U32 bytes[2];  // bytes 1 and 3 of a row have its lane's bits of 32 keys each
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      bytes[half] = (drawn[r][half] & odd_bytes) | ((drawn[r][half] << 4) & ~odd_bytes);
    }
    const U32 own = Warp::template permute<0x7531>(bytes[0], bytes[1]);  // (half of the rows, half of the keys)
    const U32 two = Warp::permute(own, Warp::exchange(own, 1), of_keys);
    const U32 four = Warp::permute(two, Warp::exchange(two, 2), of_rows);
    const typename Warp::I32 row = lane / 4 + lower_half * 8 + 16 * r;
    Warp::store(to, row * 2 + upper_keys, four, row < valid);
  }
}

/// Zeroes dropped elements of x.
template <class Warp, int R>
BERT_HPC_WARP_CODE void drop_drawn(const typename Warp::U32 (&drawn)[R][2], typename Warp::F32 (&x)[R][8][4]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[r][n][i] = if_kept<Warp>(x[r][n][i], drawn[r][i / 2], drawn_bit(n, i % 2));
    }
  }
}

/// Zeroes dropped elements that are rounded to pairs: pairs[r][n][half] has elements 2·half and 2·half + 1 of an
/// accumulator. The top bits of two bytes become masks of 16 bits.
template <class Warp, int R>
BERT_HPC_WARP_CODE void drop_pairs(const typename Warp::U32 (&drawn)[R][2], typename Warp::U32 (&pairs)[R][8][2]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const typename Warp::U32 tops = drawn[r][half] << (3 - n);
        pairs[r][n][half] = pairs[r][n][half] & Warp::template permute<0x9988>(tops, tops);
        pairs[r][n + 4][half] = pairs[r][n + 4][half] & Warp::template permute<0xBBAA>(tops, tops);
      }
    }
  }
}

/// Bits of query row `row` for 32 keys from a multiple of 32 on, among them `key`: bit attention_kept_bit(k) for key k
/// of the 32.
template <class Warp, class T>
BERT_HPC_WARP_CODE typename Warp::U32 kept_word(const AttentionCall<T>& call, int head, int key, int first,
                                                typename Warp::I32 row, typename Warp::Mask valid) {
  const auto* const from =
      reinterpret_cast<const std::uint32_t*>(call.saved_kept.row(head * call.dropout_tiles + key / 64) + first);
  return Warp::load(from, row * 2 + key / 32 % 2, valid, 0u);
}

}  // namespace bert_hpc::ops::cuda
