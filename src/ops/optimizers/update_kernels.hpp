// Kernels that rules share: every array is read and written once. A rule gives its `Element`: the constants of a step,
//   static constexpr std::size_t states;  // that it keeps of a parameter
//   static constexpr bool tensor_norms;   // then it has a `float tensor_scale` too
//   static constexpr bool in_blocks;      // then it keeps states in blocks too: see update_blocks.hpp
//   float gradient_scale;
//   void operator()(float& w, float g, float&… states) const;
// Only kernel files include this.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "../kernel.hpp"
#include "../kernel_rows.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "update_blocks.hpp"
#include "update_element.hpp"

namespace bert_hpc::ops {

/// Elements of a piece: few enough on a GPU that a shard of some million elements keeps all of it busy.
inline constexpr std::int64_t piece_elements = kernel::in_warps ? 512 : norm_block;

namespace updates {

/// The elements [0, count) of a piece that `marks` are of.
template <class Body>
KOKKOS_INLINE_FUNCTION void update_piece(const kernel::RowTeam& team, std::int64_t count, const std::uint8_t* marks,
                                         const Body& body) {
  if constexpr (kernel::in_warps) {
    update_packs(team.lane, count, marks, body);
  } else {
    for_marked_runs(0, count, marks, body);
  }
}

template <class Copy, bool clears, class Gradient, class Element>
KOKKOS_INLINE_FUNCTION void update_range(const kernel::RowTeam& team, std::int64_t count, const std::uint8_t* marks,
                                         const Element& update, const UpdateRange& r, Gradient* gradient,
                                         std::int64_t begin) {
  if constexpr (Element::in_blocks) {
    if (r.blocks[0].codes != nullptr) {
      return update_blocks<Copy, clears>(Lanes{team}, count, marks, update, r, gradient, begin);
    }
  }
  UpdateElement<Element, void, clears, Gradient> plain{update, r.value + begin, gradient + begin, {}, nullptr};
  for (std::size_t k = 0; k < Element::states; ++k) plain.s[k] = r.states[k] + begin;
  if (r.copy == nullptr) return update_piece(team, count, marks, plain);
  UpdateElement<Element, Copy, clears, Gradient> copied{update, plain.w, plain.g, {}, nullptr};
  for (std::size_t k = 0; k < Element::states; ++k) copied.s[k] = plain.s[k];
  copied.copy = reinterpret_cast<Copy*>(r.copy) + begin;
  update_piece(team, count, marks, copied);
}

/// The element of a rule with tensor norms has a tensor_scale.
template <class Element>
KOKKOS_INLINE_FUNCTION void scale_tensor(Element& element, const float* scales, std::int64_t tensor) {
  if constexpr (Element::tensor_norms) element.tensor_scale = scales[tensor];
}

/// `with` and `without` weight decay.
template <class Copy, class Element>
void update_pieces(const kernel::Label& label, const UpdateStep& step, const UpdateRange* all,
                   const UpdateRanges::Piece* pieces, std::int64_t piece_count, const Element& with,
                   const Element& without) {
  const float* const device_scale = step.device_scale;
  const float* const tensor_scales = step.tensor_scales;
  kernel::for_rows(
      label, piece_count, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t p) {
        const UpdateRanges::Piece piece = pieces[p];
        const UpdateRange r = all[piece.range];
        Element update = r.decay ? with : without;
        if (device_scale != nullptr) update.gradient_scale = *device_scale;
        scale_tensor(update, tensor_scales, r.tensor);
        std::uint8_t* const marks = r.marks == nullptr ? nullptr : r.marks + piece.begin / TouchedRows::line;
        if (update.gradient_scale != update.gradient_scale) {  // NaN: skipped
          if (r.clears) update_piece(team, piece.count, marks, ZeroElement{r.gradient + piece.begin});
        } else if (r.clears) {
          update_range<Copy, true>(team, piece.count, marks, update, r, r.gradient, piece.begin);
        } else if (r.narrow_gradient != nullptr) {
          update_range<Copy, false>(team, piece.count, nullptr, update, r, r.narrow_gradient, piece.begin);
        } else {
          update_range<Copy, false>(team, piece.count, nullptr, update, r, r.gradient, piece.begin);
        }
        if (marks == nullptr) return;
        team.meet();  // all have read them
        team.each(kernel::divide_up(piece.count, TouchedRows::line), [&](std::int64_t l) { marks[l] = 0; });
      });
}

/// UpdateRule::update().
template <class Element>
void update(const char* label, const UpdateStep& step, const UpdateRanges& ranges, std::size_t first, std::size_t last,
            const Element& with, const Element& without) {
  core::require(first <= last, "optimizer: ranges that there are not");
  const std::int64_t begin = ranges.piece_of(first), end = ranges.piece_of(last);
  const auto run =
      ranges.copies() == core::DataType::fp16 ? update_pieces<core::Fp16, Element> : update_pieces<core::Bf16, Element>;
  run({label, ranges.bytes(first, last)}, step, ranges.ranges(), ranges.pieces() + begin, end - begin, with, without);
}

template <class Element, std::size_t... k>
void update_one(const Element& element, const HostRange& range, std::size_t i, std::index_sequence<k...>) {
  element(range.value[i], range.gradient[i], range.states[k][i]...);
}

/// UpdateRule::update_on_host().
template <class Element>
void update_on_host(const char* label, const HostRange& range, const Element& element) {
  const auto states = std::make_index_sequence<Element::states>();
  if constexpr (Element::in_blocks) {
    if (range.blocks[0].codes != nullptr) return update_blocks_on_host(label, range, element);
  }
  if constexpr (kernel::on_gpu) {
    Kokkos::parallel_for(
        label,
        Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::size_t>>(0, range.value.size()),
        [=](std::size_t i) { update_one(element, range, i, states); });
  } else {
    UpdateElement<Element, void, false> body{element, range.value.data(), range.gradient.data(), {}, nullptr};
    for (std::size_t k = 0; k < Element::states; ++k) body.s[k] = range.states[k].data();
    const auto count = static_cast<std::int64_t>(range.value.size());
    kernel::for_items(label, kernel::divide_up(count, kernel::flat_block), [=](std::int64_t block) {
      const std::int64_t begin = block * kernel::flat_block;
      for_marked_runs(begin, std::min(count, begin + kernel::flat_block), nullptr, body);
    });
  }
}

/// Squares of value and update over elements [0, count), the one after the other, at `sums`. The element's first_pass()
/// brings the states of a parameter up to date and gives what is to be squared, its update for example.
template <class Element, class Gradient, std::size_t... k>
KOKKOS_INLINE_FUNCTION double update_squares(const kernel::RowTeam& team, std::int64_t count, const Element& element,
                                             const float* value, const Gradient* gradient, float* const* states,
                                             std::index_sequence<k...>) {
  return team.template sum<double>(count, [=](std::int64_t i) {
    const auto update = static_cast<double>(element.first_pass(value[i], gradient[i], states[k][i]...));
    return update * update;
  });
}

KOKKOS_INLINE_FUNCTION double value_squares(const kernel::RowTeam& team, std::int64_t count, const float* value) {
  return team.template sum<double>(
      count, [=](std::int64_t i) { return static_cast<double>(value[i]) * static_cast<double>(value[i]); });
}

/// UpdateRule::begin() of an element with a first_pass().
template <class Element>
void first_pass(const char* label, const UpdateRanges& ranges, const Element& with, const Element& without,
                double* sums) {
  const UpdateRange* const all = ranges.ranges();
  const UpdateRanges::Piece* const blocks = ranges.blocks().data();
  kernel::for_rows(
      label, ranges.blocks().size(), KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t b) {
        const UpdateRanges::Piece block = blocks[b];
        const UpdateRange r = all[block.range];
        const Element element = r.decay ? with : without;
        const auto states = std::make_index_sequence<Element::states>();
        float* begins[Element::states];
        for (std::size_t k = 0; k < Element::states; ++k) begins[k] = r.states[k] + block.begin;
        const float* const value = r.value + block.begin;
        const double update =
            r.narrow_gradient != nullptr
                ? update_squares(team, block.count, element, value, r.narrow_gradient + block.begin, begins, states)
                : update_squares(team, block.count, element, value, r.gradient + block.begin, begins, states);
        const double values = value_squares(team, block.count, value);
        if (!team.leads()) return;
        const std::int64_t index = 2 * (r.first_block + (block.begin + r.phase) / norm_block);
        sums[index] = values;
        sums[index + 1] = update;
      });
}

template <class Element, std::size_t... k>
double host_update_squares(const Element& element, const HostRange& range, std::int64_t begin, std::int64_t count,
                           std::index_sequence<k...>) {
  return kernel::sum_of<double>(count, [&](std::int64_t j) {
    const auto i = static_cast<std::size_t>(begin + j);
    const auto update =
        static_cast<double>(element.first_pass(range.value[i], range.gradient[i], range.states[k][i]...));
    return update * update;
  });
}

/// UpdateRule::begin_on_host(), with CPU kernels the same bits.
template <class Element>
void first_pass_on_host(const char* label, const HostRange& range, const Element& element, double* sums) {
  const auto count = static_cast<std::int64_t>(range.value.size());
  Kokkos::parallel_for(label,
                       Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>(
                           0, blocks_touched(range.phase, count)),
                       [=](std::int64_t b) {
                         const std::int64_t begin = b == 0 ? 0 : b * norm_block - range.phase;
                         const std::int64_t end = std::min(count, (b + 1) * norm_block - range.phase);
                         const float* const value = range.value.data() + begin;
                         const double update = host_update_squares(element, range, begin, end - begin,
                                                                   std::make_index_sequence<Element::states>());
                         const double values = kernel::sum_of<double>(end - begin, [=](std::int64_t i) {
                           return static_cast<double>(value[i]) * static_cast<double>(value[i]);
                         });
                         const std::int64_t index = 2 * (range.first_block + b);
                         sums[index] = values;
                         sums[index + 1] = update;
                       });
}

}  // namespace updates
}  // namespace bert_hpc::ops
