// Updates of parameters whose states are blocks of 8-bit numbers (dynamic8.hpp): a block is decoded, updated in
// registers or in cache, and encoded again with its new scales. An element that is `in_blocks` has
//   DecodedValues values[states];  // of each state's codes, in the memory of the ranges
// Only kernel files include this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "../kernel.hpp"
#include "../kernel_rows.hpp"
#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::ops::updates {

/// The values of a state's codes, and whether they have signs.
struct DecodedValues {
  const float* of_code = nullptr;  ///< (256)
  bool with_sign = true;
};

/// The threads that share a block: one of a CPU, or a warp, where each thread keeps every 32nd element.
struct Lanes {
  static constexpr int slots = static_cast<int>(dynamic8::block) / (kernel::in_warps ? packs::warp_lanes : 1);
  kernel::RowTeam team;

  /// body(slot, j) for this thread's elements j of [0, count).
  template <class Body>
  KOKKOS_INLINE_FUNCTION void each(int count, const Body& body) const {
    if constexpr (kernel::in_warps) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
      for (int s = 0; s < slots; ++s) {
        const int j = s * packs::warp_lanes + team.lane;
        if (j < count) body(s, j);
      }
    } else {
#pragma omp simd
      for (int j = 0; j < count; ++j) body(j, j);
    }
  }

  /// The largest |x[j]| of all threads.
  KOKKOS_INLINE_FUNCTION float largest(int count, const float* x) const {
    if constexpr (kernel::in_warps) {
      float own = 0.0f;
      each(count, [&](int s, int) { own = std::abs(x[s]) > own ? std::abs(x[s]) : own; });
      return team.max<float>(packs::warp_lanes, 0.0f, [own](std::int64_t) { return own; });
    } else {
      return team.max<float>(count, 0.0f, [&](std::int64_t j) { return std::abs(x[j]); });
    }
  }
  KOKKOS_INLINE_FUNCTION bool leads() const {
    return team.leads();
  }
};

/// One thread of the host alone, in builds whose kernels run on a GPU too.
struct HostLanes {
  static constexpr int slots = static_cast<int>(dynamic8::block);

  template <class Body>
  KOKKOS_INLINE_FUNCTION void each(int count, const Body& body) const {
#pragma omp simd
    for (int j = 0; j < count; ++j) body(j, j);
  }
  KOKKOS_INLINE_FUNCTION float largest(int count, const float* x) const {
    return kernel::max_of<float>(count, 0.0f, [&](std::int64_t j) { return std::abs(x[j]); });
  }
  KOKKOS_INLINE_FUNCTION bool leads() const {
    return true;
  }
};

template <class Team>
KOKKOS_INLINE_FUNCTION void encode(const Team& lanes, int count, bool with_sign, const float* x, std::uint8_t* codes,
                                   float* scale) {
  const float largest = lanes.largest(count, x), inverse = dynamic8::inverse_scale(largest);
  if (with_sign) {
    lanes.each(count, [&](int s, int j) { codes[j] = dynamic8::encode_signed(x[s] * inverse); });
  } else {
    lanes.each(count, [&](int s, int j) { codes[j] = dynamic8::encode_unsigned(x[s] * inverse); });
  }
  if (lanes.leads()) *scale = largest;
}

/// Whether all gradients of a block are known to be zero.
KOKKOS_INLINE_FUNCTION bool known_zeros(const std::uint8_t* marks, int count) {
  if (marks == nullptr) return false;
  std::uint8_t any = 0;
  for (int l = 0; l < count; l += static_cast<int>(TouchedRows::line)) any |= marks[l / TouchedRows::line];
  return any == 0;
}

/// The arrays of one block of two states; `gradient` is null if it is known to be zero, `copy` where there is none.
template <class Gradient, class Copy>
struct Block {
  float* value;
  Gradient* gradient;
  StateBlocks first, second;
  Copy* copy;
};

template <bool clears, class Team, class Element, class Gradient, class Copy>
KOKKOS_INLINE_FUNCTION void update_block(const Team& lanes, int count, const Element& update,
                                         const Block<Gradient, Copy>& block) {
  static_assert(Element::states == 2, "rules that keep blocks have two moments");
  constexpr int slots = Team::slots;
  float w[slots], g[slots], first[slots], second[slots];
  const float first_scale = *block.first.scales, second_scale = *block.second.scales;
  const float* const first_values = update.values[0].of_code;
  const float* const second_values = update.values[1].of_code;
  lanes.each(count, [&](int s, int j) {
    w[s] = block.value[j];
    first[s] = first_values[block.first.codes[j]] * first_scale;
    second[s] = second_values[block.second.codes[j]] * second_scale;
  });
  if (block.gradient == nullptr) {
    lanes.each(count, [&](int s, int) { g[s] = 0.0f; });
  } else {
    lanes.each(count, [&](int s, int j) { g[s] = static_cast<float>(block.gradient[j]); });
    if constexpr (clears) lanes.each(count, [&](int, int j) { block.gradient[j] = 0.0f; });
  }
  lanes.each(count, [&](int s, int j) {
    update(w[s], g[s], first[s], second[s]);
    block.value[j] = w[s];
  });
  if (block.copy != nullptr) lanes.each(count, [&](int s, int j) { block.copy[j] = Copy(w[s]); });
  encode(lanes, count, update.values[0].with_sign, first, block.first.codes, block.first.scales);
  encode(lanes, count, update.values[1].with_sign, second, block.second.codes, block.second.scales);
}

/// Elements [begin, begin + count) of a range; `gradient` is the range's, `marks` are those of the first element on.
template <class Copy, bool clears, class Team, class Gradient, class Element>
KOKKOS_INLINE_FUNCTION void update_blocks(const Team& lanes, std::int64_t count, const std::uint8_t* marks,
                                          const Element& update, const UpdateRange& r, Gradient* gradient,
                                          std::int64_t begin) {
  for (std::int64_t done = 0; done < count; done += dynamic8::block) {
    const auto left = static_cast<int>(count - done < dynamic8::block ? count - done : dynamic8::block);
    const std::int64_t at = begin + done, number = at / dynamic8::block;
    const bool zeros = known_zeros(marks == nullptr ? nullptr : marks + done / TouchedRows::line, left);
    const Block<Gradient, Copy> block{r.value + at,
                                      zeros ? nullptr : gradient + at,
                                      {r.blocks[0].codes + at, r.blocks[0].scales + number},
                                      {r.blocks[1].codes + at, r.blocks[1].scales + number},
                                      r.copy == nullptr ? nullptr : reinterpret_cast<Copy*>(r.copy) + at};
    update_block<clears>(lanes, left, update, block);
  }
}

/// UpdateRule::update_on_host() of a range in blocks.
template <class Element>
void update_blocks_on_host(const char* label, const HostRange& range, const Element& element) {
  const auto size = static_cast<std::int64_t>(range.value.size()), count = core::state_blocks::count(size);
  const auto body = [=](std::int64_t number) {
    const std::int64_t at = number * dynamic8::block;
    const Block<float, core::Bf16> block{range.value.data() + at,
                                         range.gradient.data() + at,
                                         {range.blocks[0].codes + at, range.blocks[0].scales + number},
                                         {range.blocks[1].codes + at, range.blocks[1].scales + number},
                                         nullptr};
    update_block<false>(HostLanes{}, static_cast<int>(std::min(dynamic8::block, size - at)), element, block);
  };
  if constexpr (kernel::on_gpu) {
    Kokkos::parallel_for(
        label, Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>(0, count), body);
  } else {
    kernel::for_items(label, count, body);
  }
}

}  // namespace bert_hpc::ops::updates
