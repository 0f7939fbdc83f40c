// Dropout decisions of a block of query rows against keys (ops/attention_dropout.hpp), as bytes in the order of keys.
// No function of a shared header may be called here (see attention_task.hpp).
#pragma once

#include <cstdint>

#include "../attention_task.hpp"
#include "../philox_lanes.hpp"
#include "attention_packing.hpp"

namespace bert_hpc::ops::cpu {
namespace {

/// Number of bytes that one call of the generator fills, and of keys that the same four Philox blocks decide.
constexpr std::int64_t drawn_bytes = 128, keys_together = 64;

/// Bytes of dropout values of a row.
constexpr std::int64_t bits_stride(std::int64_t keys) {
  return round_up(keys, keys_together);
}

/// Bytes of dropout values of a block of rows, with room for the last call of the generator.
constexpr std::int64_t bits_bytes(std::int64_t rows, std::int64_t keys) {
  return rows * bits_stride(keys) + drawn_bytes - keys_together;
}

typedef std::uint16_t EightHalves __attribute__((vector_size(16)));
typedef std::uint16_t UnalignedHalves __attribute__((vector_size(16), aligned(1), may_alias));

/// Selects elements of a and b by index, 0 … 15.
template <std::uint16_t... i>
inline EightHalves shuffled_halves(EightHalves a, EightHalves b) {
  return __builtin_shuffle(a, b, EightHalves{i...});
}

/// Orders the 64 bytes of four Philox blocks by key. Half-words u of blocks 0 … 3 are, in this order, the eight keys
/// from 8·n on, with u = 0, 2, 4, 6, 1, 3, 5, 7 for n = 0 … 7.
inline void order_keys(const std::uint16_t* blocks, std::uint8_t* keys) {
  EightHalves block[4], of_u[4];  // of_u[i]: half-words 2·i and 2·i + 1 of the four blocks
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) block[c] = *reinterpret_cast<const UnalignedHalves*>(blocks + 8 * c);
#pragma GCC unroll 2
  for (int upper = 0; upper < 2; ++upper) {
    EightHalves two[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const EightHalves a = block[2 * i], b = block[2 * i + 1];
      two[i] = upper == 0 ? shuffled_halves<0, 8, 1, 9, 2, 10, 3, 11>(a, b)
                          : shuffled_halves<4, 12, 5, 13, 6, 14, 7, 15>(a, b);
    }
    of_u[2 * upper] = shuffled_halves<0, 1, 8, 9, 2, 3, 10, 11>(two[0], two[1]);
    of_u[2 * upper + 1] = shuffled_halves<4, 5, 12, 13, 6, 7, 14, 15>(two[0], two[1]);
  }
  UnalignedHalves* const out = reinterpret_cast<UnalignedHalves*>(keys);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    out[i] = shuffled_halves<0, 1, 2, 3, 8, 9, 10, 11>(of_u[2 * i], of_u[2 * i + 1]);
    out[2 + i] = shuffled_halves<4, 5, 6, 7, 12, 13, 14, 15>(of_u[2 * i], of_u[2 * i + 1]);
  }
}

/// Dropout values of query rows [first, first + rows) against keys [first_key, first_key + keys), where first_key is a
/// multiple of keys_together: bits[r][0 … bits_stride(keys)).
void draw_bits(const AttentionHead& task, std::int64_t first, std::int64_t rows, std::int64_t first_key,
               std::int64_t keys, std::uint8_t* bits) {
  constexpr std::int64_t most = 256;
  std::uint32_t block_of[most], row_of[most];
  const PhiloxStream stream{task.c2, task.c3, task.key0, task.key1};
  const std::uint32_t blocks = static_cast<std::uint32_t>(bits_stride(keys) / 16);
  const std::uint32_t first_block = static_cast<std::uint32_t>(first_key / 16);
  const std::int64_t count = rows * blocks;
  std::uint32_t block = 0;
  std::int64_t row = first;
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t here = count - begin < most ? count - begin : most;
    for (std::int64_t n = 0; n < here; ++n) {
      block_of[n] = first_block + block;
      row_of[n] = task.first_row + static_cast<std::uint32_t>(task.position[row]);
      if (++block == blocks) {
        block = 0;
        ++row;
      }
    }
    for (std::int64_t n = here; n < round_up(here, 8); ++n) block_of[n] = row_of[n] = 0;
    for (std::int64_t n = 0; n < here; n += 8) {
      std::uint16_t drawn[drawn_bytes / 2];
      philox_of_8(listed_counters(block_of + n, row_of + n), stream, drawn);
      for (std::int64_t i = 0; i < drawn_bytes; i += keys_together) {
        order_keys(drawn + i / 2, bits + 16 * (begin + n) + i);
      }
    }
  }
}

/// All bits set in the lanes that are kept.
inline IntVector kept(const std::uint8_t* bits, std::uint32_t threshold) {
  const UnalignedBytes values = *reinterpret_cast<const UnalignedBytes*>(bits);
  return __builtin_convertvector(values, IntVector) >= static_cast<std::int32_t>(threshold);
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
