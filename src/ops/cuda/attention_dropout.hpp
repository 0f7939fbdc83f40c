// Dropout of attention probabilities on tensor cores: the forward kernel draws it once and stores one bit per pair of
// query and key for backward.
//
// Estimate of the benefit of stored bits, for an H100 and a layer of 32 sequences of 512 tokens and 12 heads, 100.7
// million pairs: a draw is 80 instructions for 8 pairs, 10 per pair, and 100.7e6 · 10 / (132 multiprocessors · 128
// lanes · 1.7 GHz) = 35 µs of issue slots for each kernel that draws. The bits are 12.6 MB; writing and reading them
// once takes 8 µs of the memory's 3 TB/s, which these kernels otherwise leave idle, and about 1.5 instructions per
// pair.
//
// Layout of the bits: 64-bit word (head · tiles + key / 64, query row), bit key % 64, set if the pair is kept. Words of
// neighbouring queries are contiguous, so that a warp writes and reads whole sectors.
#pragma once

#include "attention_tile.hpp"

namespace bert_hpc::ops::cuda {

/// Determines which of a block's eight 16-bit numbers (ops/dropout.hpp) reach the threshold, which is below 2^16: bit j
/// for number j. Compares two numbers at once, each within its half of a word.
template <class Warp>
BERT_HPC_WARP_CODE typename Warp::U32 kept_of_block(const typename Warp::U32 (&words)[4], std::uint32_t threshold) {
  using U32 = typename Warp::U32;
  constexpr std::uint32_t tops = 0x80008000u;
  const std::uint32_t low = (threshold & 0x7FFFu) * 0x10001u, either = threshold < 0x8000u ? ~0u : 0u;
  U32 bits = 0u;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    // The top bit of a half of `reached`: its other 15 bits are not below those of the threshold. No half borrows.
    const U32 reached = (words[i] | tops) - low;
    const U32 kept = (words[i] & reached) | ((words[i] | reached) & either);
    bits = bits | ((kept & tops) >> (15 - 2 * i));
  }
  return (bits | (bits >> 15)) & 0xFFu;
}

/// x, or zero if the bit is not set.
template <class Warp>
BERT_HPC_WARP_CODE typename Warp::F32 if_kept(typename Warp::F32 x, typename Warp::U32 bits, int bit) {
  return Warp::select((bits & (1u << bit)) != 0u, x, typename Warp::F32(0.0f));
}

/// Generator rows for drop(), for the warp's queries from `first` on, of which `valid` exist. A lane draws for query
/// lane / 4 + 8·(lane % 4 / 2) of each 16.
template <class Warp, class T, int R>
BERT_HPC_WARP_CODE void dropout_rows(const AttentionCall<T>& call, int head, int first, int valid,
                                     typename Warp::U32 (&row_word)[R]) {
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const typename Warp::I32 row = Warp::lane() / 4 + Warp::lane() % 4 / 2 * 8 + 16 * r;
    const typename Warp::I32 position = Warp::load(call.query_position + first, row, row < valid, 0);
    row_word[r] = Warp::bits(position) + (static_cast<std::uint32_t>(call.first_head + head) << 20);
  }
}

/// Draws for 16·R queries by 64 keys from `key` on, zeroes dropped elements of x and writes the bits of the first
/// `valid` queries. A lane draws 32 of the 64 keys of one query; lanes of a quad exchange bits, not random words.
template <class Warp, class T, int R>
BERT_HPC_WARP_CODE void drop(const AttentionCall<T>& call, std::int64_t sample, const typename Warp::U32 (&row_word)[R],
                             int head, int first, int valid, int key, typename Warp::F32 (&x)[R][8][4]) {
  using U32 = typename Warp::U32;
  const typename Warp::I32 lane = Warp::lane();
  const typename Warp::Mask odd = lane % 2 != 0, upper = lane % 4 / 2 != 0;
  auto* const to = reinterpret_cast<std::uint32_t*>(call.kept.row(head * call.dropout_tiles + key / 64) + first);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    U32 drawn = 0u;
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      U32 words[4];
      Warp::dropout_bits(call.dropout, sample, row_word[r], Warp::bits(lane % 2 + (key / 8 + n)), words);
      drawn = drawn | (kept_of_block<Warp>(words, call.threshold) << (4 * n));
    }
    const U32 received = Warp::exchange(drawn, 1);
    const U32 even_blocks = Warp::select(odd, received, drawn), odd_blocks = Warp::select(odd, drawn, received);
    const U32 own[2] = {Warp::template permute<0x5140>(even_blocks, odd_blocks),
                        Warp::template permute<0x7362>(even_blocks, odd_blocks)};
    const typename Warp::I32 row = lane / 4 + lane % 4 / 2 * 8 + 16 * r;
    Warp::store(to, row * 2 + lane % 2, Warp::select(odd, own[1], own[0]), row < valid);
#pragma unroll
    for (int word = 0; word < 2; ++word) {
      const U32 other = Warp::exchange(own[word], 2);
      const U32 of_half[2] = {Warp::select(upper, other, own[word]) >> (lane % 4 * 2),
                              Warp::select(upper, own[word], other) >> (lane % 4 * 2)};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          x[r][4 * word + n][i] = if_kept<Warp>(x[r][4 * word + n][i], of_half[i / 2], i % 2 + 8 * n);
        }
      }
    }
  }
}

/// Bits of query row `row` for 32 keys from `key` (a multiple of 32) on.
template <class Warp, class T>
BERT_HPC_WARP_CODE typename Warp::U32 kept_word(const AttentionCall<T>& call, int head, int key, int first,
                                                typename Warp::I32 row, typename Warp::Mask valid) {
  const auto* const from =
      reinterpret_cast<const std::uint32_t*>(call.saved_kept.row(head * call.dropout_tiles + key / 64) + first);
  return Warp::load(from, row * 2 + key / 32 % 2, valid, 0u);
}

}  // namespace bert_hpc::ops::cuda
