// Dropout decisions of attention probabilities. A Philox block (ops/dropout.hpp) decides 16 keys of a query with 8 bits
// each, as in FlashAttention-2 (Dao, 2023): the generator executes more instructions than the rest of a score's path.
// The row of the counter is head·2^20 + query position. Block 4·t + c decides those of the keys 64·t … 64·t + 63 with
// key % 8 / 2 = c. These are the columns of one lane in a tensor core's accumulator, so a lane draws its own decisions.
//
// A probability is dropped if its byte is below round(256·p). Kept ones are divided by the exact probability of being
// kept, (256 − round(256·p)) / 256.
#pragma once

#include "bert_hpc/ops/dropout.hpp"

namespace bert_hpc::ops {

/// The schema of dropout's random bits. Checkpoints name it, and a run does not continue with bits of another schema.
inline constexpr const char* dropout_schema = "philox4x32-10, hidden states 16 bits, attention 8 bits";

/// A probability is dropped if its 8 bits are below this threshold, at most 255.
BERT_HPC_DEVICE std::uint32_t attention_dropout_threshold(float probability) {
  const std::uint32_t nearest = static_cast<std::uint32_t>(probability * 256.0f + 0.5f);
  return nearest < 255u ? nearest : 255u;
}

/// 1 / (probability of being kept), rounded once.
BERT_HPC_DEVICE float attention_dropout_scale(std::uint32_t threshold) {
  return 256.0f / static_cast<float>(256u - threshold);
}

/// The block that decides the key at this position.
BERT_HPC_DEVICE std::uint32_t attention_dropout_block(std::int64_t key) {
  return static_cast<std::uint32_t>(key / 64 * 4 + key % 8 / 2);
}

/// The byte of its block that decides a key, counted from the lowest byte of word 0: with n = key % 64 / 8, byte 2·(n /
/// 4) + key % 2 of word n % 4. In this order few instructions gather the results of 16 comparisons.
BERT_HPC_DEVICE int attention_dropout_byte(std::int64_t key) {
  const int n = static_cast<int>(key % 64 / 8);
  return n % 4 * 4 + n / 4 * 2 + static_cast<int>(key % 2);
}

/// Bit of a key in the 64-bit word of its 64 keys, where forward keeps decisions for backward: of each 32 keys, four
/// bits for each remainder by 8. Word (head · tiles + key / 64, query row); a bit is set if the pair is kept.
BERT_HPC_DEVICE constexpr int attention_kept_bit(int key) {
  return key % 64 / 32 * 32 + key % 8 * 4 + key % 32 / 8;
}

/// Whether the probability of a byte (0 … 15) of a block is kept.
BERT_HPC_DEVICE bool attention_dropout_keeps(const core::Philox4& bits, int byte, std::uint32_t threshold) {
  return ((bits.word[byte / 4] >> (8 * (byte % 4))) & 0xFFu) >= threshold;
}

}  // namespace bert_hpc::ops
