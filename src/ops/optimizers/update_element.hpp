// An update of one parameter, and of eight neighbours as a GPU's thread takes them, whatever the rule: included by
// kernel files and by tests that run it without a GPU.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "../packs.hpp"
#include "bert_hpc/core/device.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::ops {

/// Updates of w, with its gradient, states and copy (of type `Copy`, or void without) by `Element`
/// (update_kernels.hpp). `clears`: the gradient becomes 0.
template <class Element, class Copy, bool clears = true, class Gradient = float>
struct UpdateElement {
  Element update;
  float* w;
  Gradient* g;
  float* s[Element::states];
  Copy* copy;

  template <bool known_zero>
  BERT_HPC_DEVICE void element(std::int64_t i) const {
    element_with<known_zero>(i, std::make_index_sequence<Element::states>());
  }

  template <bool known_zero, std::size_t... k>
  BERT_HPC_DEVICE void element_with(std::int64_t i, std::index_sequence<k...>) const {
    if constexpr (known_zero) {
      update(w[i], 0.0f, s[k][i]...);
    } else {
      update(w[i], g[i], s[k][i]...);
      if constexpr (clears) g[i] = 0.0f;
    }
    if constexpr (!std::is_void_v<Copy>) copy[i] = Copy(w[i]);
  }

  /// Elements [i, i + count), at most a pack. All is read before the first is written, so that the reads of a thread
  /// are under way together: in element() the compiler must assume that a store changes what the next load finds.
  template <bool known_zero>
  BERT_HPC_DEVICE void pack(std::int64_t i, int count) const {
    pack_with<known_zero>(i, count, std::make_index_sequence<Element::states>());
  }

  template <bool known_zero, std::size_t... k>
  BERT_HPC_DEVICE void pack_with(std::int64_t i, int count, std::index_sequence<k...>) const {
    using packs::width;
    float value[width], gradient[width] = {}, states[Element::states][width];
    packs::load(w + i, count, value);
    if constexpr (!known_zero) packs::load(g + i, count, gradient);
    (packs::load(s[k] + i, count, states[k]), ...);
    for (int j = 0; j < width; ++j) update(value[j], gradient[j], states[k][j]...);
    (packs::store(states[k], count, s[k] + i), ...);
    packs::store(value, count, w + i);
    if constexpr (!known_zero && clears) {
      float zero[width] = {};
      packs::store(zero, count, g + i);
    }
    if constexpr (!std::is_void_v<Copy>) packs::store(value, count, copy + i);
  }
};

/// Zeroes a gradient, where it is not known to be zero.
struct ZeroElement {
  float* x;

  template <bool known_zero>
  BERT_HPC_DEVICE void element(std::int64_t i) const {
    if constexpr (!known_zero) x[i] = 0.0f;
  }
  template <bool known_zero>
  BERT_HPC_DEVICE void pack(std::int64_t i, int count) const {
    if constexpr (known_zero) return;
    float zero[packs::width] = {};
    packs::store(zero, count, x + i);
  }
};

/// The packs of [0, count) that are thread `lane`'s of a warp; lines that `marks` (or null) says are zero go the short
/// way.
template <class Body>
BERT_HPC_DEVICE void update_packs(int lane, std::int64_t count, const std::uint8_t* marks, const Body& body) {
  using namespace packs;
  static_assert(TouchedRows::line % width == 0, "a pack lies in one line");
  for (std::int64_t o = lane; o < count_of(count); o += warp_lanes) {
    const std::int64_t begin = o * width;
    if (marks != nullptr && marks[begin / TouchedRows::line] == 0) {
      body.template pack<true>(begin, columns_of(o, count));
    } else {
      body.template pack<false>(begin, columns_of(o, count));
    }
  }
}

/// body.element<known_zero>(i) for i in [begin, end), which marks[0] begins: runs of lines of one kind, so that loops
/// are long.
template <class Body>
BERT_HPC_DEVICE void for_marked_runs(std::int64_t begin, std::int64_t end, const std::uint8_t* marks,
                                     const Body& body) {
  constexpr std::int64_t line = TouchedRows::line;
  for (std::int64_t next; begin < end; begin = next) {
    const bool zero = marks != nullptr && marks[begin / line] == 0;
    next = marks == nullptr ? end : begin + line;
    while (next < end && (marks[next / line] == 0) == zero) next += line;
    next = next < end ? next : end;
    if (zero) {
#pragma omp simd
      for (std::int64_t i = begin; i < next; ++i) body.template element<true>(i);
    } else {
#pragma omp simd
      for (std::int64_t i = begin; i < next; ++i) body.template element<false>(i);
    }
  }
}

}  // namespace bert_hpc::ops
