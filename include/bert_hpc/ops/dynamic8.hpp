// Numbers of 8 bits for optimizer states: blocks of 256 neighbours have one scale, their largest magnitude, and each
// number is the nearest of 256 values times it. The values lie dense near 1 and reach down to 1e-7: seven decades, each
// with twice as many values at equal distances as the one below (Dettmers et al., "8-bit optimizers via block-wise
// quantization", 2022, dynamic tree quantization, as bitsandbytes builds its map).
#pragma once

#include <array>
#include <cstdint>

#include "bert_hpc/core/device.hpp"
#include "bert_hpc/core/state_blocks.hpp"

namespace bert_hpc::ops::dynamic8 {

inline constexpr std::int64_t block = core::state_blocks::size;

/// The value of each code, ascending, in [-1, 1] or in [0, 1].
const std::array<float, 256>& values(bool with_sign);

namespace detail {

/// n + j for value j of the decade with n values; 0 for zero, 2 · (values of the highest decade) for 1. `least` is the
/// number of values of the lowest decade. Decade i spans [1e-7, 1e-6) · 10^i; its values are the centres of n equal
/// parts. No branches, so that loops over elements become vector code.
template <int least>
BERT_HPC_DEVICE int rank_of(float y) {
  constexpr float n0 = least;
  // Points from which the upper decade's lowest value is nearer than the lower one's highest: 10^(i-7) (1 + 0.9 / n of
  // the lower).
  constexpr float border[6] = {1e-6f * (1 + 0.9f / n0),        1e-5f * (1 + 0.9f / (2 * n0)),
                               1e-4f * (1 + 0.9f / (4 * n0)),  1e-3f * (1 + 0.9f / (8 * n0)),
                               1e-2f * (1 + 0.9f / (16 * n0)), 1e-1f * (1 + 0.9f / (32 * n0))};
  constexpr float zero_border = 0.5f * 1e-6f * (0.1f + 0.45f / n0), one_border = 1.0f - 0.225f / (64 * n0);
  // Values of a decade for a change of y by 1: n / 0.9 · 10^(6-i).
  constexpr float densities[7] = {1e6f * n0 / 0.9f,     1e5f * 2 * n0 / 0.9f,  1e4f * 4 * n0 / 0.9f,
                                  1e3f * 8 * n0 / 0.9f, 1e2f * 16 * n0 / 0.9f, 1e1f * 32 * n0 / 0.9f,
                                  64 * n0 / 0.9f};
  int decade = 0;
  float density = densities[0];
  for (int i = 0; i < 6; ++i) {
    const bool above = y >= border[i];
    density = above ? densities[i + 1] : density;
    decade += above ? 1 : 0;
  }
  const int values = least << decade;
  const int j = static_cast<int>(y * density - static_cast<float>(values) * (1.0f / 9.0f) + 1.0f) - 1;
  const int low = j < 0 ? 0 : j, rank = values + (low < values ? low : values - 1);
  const int above_zero = y >= zero_border ? rank : 0;
  return y >= one_border ? 2 * 64 * least : above_zero;
}

}  // namespace detail

/// The code of the value nearest to y in [-1, 1].
BERT_HPC_DEVICE std::uint8_t encode_signed(float y) {
  const int rank = detail::rank_of<1>(y < 0.0f ? -y : y);
  const int negative = rank < 127 ? rank : 127;  // there is no -1
  return static_cast<std::uint8_t>(127 + (y < 0.0f ? -negative : rank));
}

/// The same for y in [0, 1], but only 0 becomes 0: a second moment that vanishes would leave ε alone in the denominator
/// of an update.
BERT_HPC_DEVICE std::uint8_t encode_unsigned(float y) {
  const int rank = detail::rank_of<2>(y);  // at least 2, or 0
  const int code = rank > 0 ? rank - 1 : 1;
  return static_cast<std::uint8_t>(y > 0.0f ? code : 0);
}

BERT_HPC_DEVICE std::uint8_t encode(bool with_sign, float y) {
  return with_sign ? encode_signed(y) : encode_unsigned(y);
}

/// What numbers are multiplied by before they are encoded; 0 for a block of zeros (or of numbers whose reciprocal
/// overflows), which become zeros.
BERT_HPC_DEVICE float inverse_scale(float scale) {
  return scale > 1e-37f ? 1.0f / scale : 0.0f;
}

}  // namespace bert_hpc::ops::dynamic8
