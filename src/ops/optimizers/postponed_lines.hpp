// PostponedSteps (update_rule.hpp) of a rule whose update of a parameter depends on nothing but the step, its gradient
// and its states. A rule gives its `Element` (update_kernels.hpp), and of that, for a gradient of 0:
//   void rest(float& w, float&… states) const;
//   void rest(float& w) const;  // if all states are 0
// A line that waits is in the cache while all its updates are made, so that they cost their arithmetic alone; a line
// that never had a gradient costs a multiplication. Only kernel files include this.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "../kernel.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::ops {

namespace postponed {

inline constexpr std::int64_t line = TouchedRows::line;
/// Steps that a line waits at most; a power of two, and below the 256 that a line's counter distinguishes.
inline constexpr std::uint32_t longest_wait = 64;
/// Lines of a work item. In each step, one item in `longest_wait` updates all its lines.
inline constexpr std::int64_t piece_lines = 256;

/// The constants of a step, of parameters with and without weight decay.
template <class Element>
struct Constants {
  Element with, without;
};

/// A range, and how many updates each of its lines has had, modulo 256.
struct Lines {
  UpdateRange range;
  std::uint8_t* made = nullptr;  // (count())
  std::int64_t count() const { return range.size / line; }
};

/// Makes the updates of lines. `count` steps have been, whose constants are at steps[number % longest_wait].
template <class Element>
class LineUpdater {
 public:
  LineUpdater(const Lines& lines, const Constants<Element>* steps, std::uint32_t count)
      : lines_(lines), steps_(steps), count_(count) {}

  /// Updates up to number `through` of a line without gradient.
  void catch_up(std::int64_t l, std::uint32_t through) const {
    const auto waiting = static_cast<std::uint8_t>(through - lines_.made[l]);
    if (waiting == 0) return;
    lines_.made[l] = static_cast<std::uint8_t>(through);
    make_waiting(l, through, waiting, std::make_index_sequence<Element::states>());
  }
  /// The last update of a line that may have a gradient, after the waiting ones.
  void update(std::int64_t l) const {
    catch_up(l, count_ - 1);
    lines_.made[l] = static_cast<std::uint8_t>(count_);
    update(l, std::make_index_sequence<Element::states>());
  }
  std::uint32_t count() const { return count_; }
  const std::uint8_t* marks() const { return lines_.range.marks; }

 private:
  const Element& constants(std::uint32_t number) const {
    const Constants<Element>& step = steps_[number % longest_wait];
    return lines_.range.decay ? step.with : step.without;
  }

  template <std::size_t... k>
  void make_waiting(std::int64_t l, std::uint32_t through, std::uint32_t waiting, std::index_sequence<k...>) const {
    float w[line], s[Element::states][line];
    std::memcpy(w, lines_.range.value + l * line, sizeof w);
    (std::memcpy(s[k], lines_.range.states[k] + l * line, sizeof w), ...);
    bool states_are_zero = true;
    for (std::int64_t i = 0; i < line; ++i) states_are_zero = states_are_zero && ((s[k][i] == 0.0f) && ...);
    if (states_are_zero) {
      for (std::uint32_t n = through - waiting + 1; n != through + 1; ++n) {
        const Element step = constants(n);
#pragma omp simd
        for (std::int64_t i = 0; i < line; ++i) step.rest(w[i]);
      }
    } else {
      for (std::uint32_t n = through - waiting + 1; n != through + 1; ++n) {
        const Element step = constants(n);
#pragma omp simd
        for (std::int64_t i = 0; i < line; ++i) step.rest(w[i], s[k][i]...);
      }
      (std::memcpy(lines_.range.states[k] + l * line, s[k], sizeof w), ...);
    }
    std::memcpy(lines_.range.value + l * line, w, sizeof w);
  }

  template <std::size_t... k>
  void update(std::int64_t l, std::index_sequence<k...>) const {
    const Element step = constants(count_);
    float* const w = lines_.range.value + l * line;
    float* const g = lines_.range.gradient + l * line;
    float* const s[] = {lines_.range.states[k] + l * line...};
#pragma omp simd
    for (std::int64_t i = 0; i < line; ++i) step(w[i], g[i], s[k][i]...);
    std::fill_n(g, line, 0.0f);
    lines_.range.marks[l] = 0;
  }

  Lines lines_;
  const Constants<Element>* steps_;
  std::uint32_t count_;
};

/// Lines [begin, end) of a piece in a step. `turn`: those without gradient are updated too.
template <class Element>
void update_piece(const LineUpdater<Element>& updater, std::int64_t begin, std::int64_t end, bool turn) {
  constexpr std::int64_t together = sizeof(std::uint64_t);
  for (std::int64_t l = begin; l < end; l += together) {
    const std::int64_t here = std::min(together, end - l);
    std::uint64_t marked = 0;
    std::memcpy(&marked, updater.marks() + l, static_cast<std::size_t>(here));
    if (marked == 0 && !turn) continue;
    for (std::int64_t i = l; i < l + here; ++i) {
      if (updater.marks()[i] != 0) {
        updater.update(i);
      } else if (turn) {
        updater.catch_up(i, updater.count());
      }
    }
  }
}

template <class Element, class Settings>
class PostponedLines final : public PostponedSteps {
 public:
  PostponedLines(const char* label, std::span<const UpdateRange> ranges, const Settings& settings)
      : label_(label), settings_(settings), steps_(longest_wait) {
    for (const UpdateRange& range : ranges) {
      core::require(range.marks != nullptr && range.gradient != nullptr && range.copy == nullptr && range.clears &&
                        range.phase == 0 && range.states[Element::states - 1] != nullptr && range.size % line == 0 &&
                        range.begin % line == 0,
                    "optimizer: updates are postponed of whole lines with marks and with states in fp32");
      made_.emplace_back(range.size / line);
      lines_.push_back({range, made_.back().data()});
    }
  }

  void update(const UpdateStep& given) override {
    UpdateStep step = given;
    {
      const core::DeviceAccess access;
      if (step.device_scale != nullptr) step.gradient_scale = *step.device_scale;
    }
    if (step.gradient_scale != step.gradient_scale) return clear();  // NaN: skipped
    const std::lock_guard one_thread(mutex_);
    core::require(!step.coupled_decay, "optimizer: coupled weight decay is never postponed");
    ++count_;
    {
      const core::DeviceAccess access;
      steps_.data()[count_ % longest_wait] = {Element(settings_, step, true), Element(settings_, step, false)};
    }
    for (const Lines& lines : lines_) {
      const LineUpdater<Element> updater(lines, steps_.data(), count_);
      for_pieces(lines, [=](std::int64_t piece, std::int64_t begin, std::int64_t end) {
        update_piece(updater, begin, end, piece % longest_wait == updater.count() % longest_wait);
      });
    }
  }

  void finish() override {
    const std::lock_guard one_thread(mutex_);
    if (finished_ == count_) return;
    for (const Lines& lines : lines_) {
      const LineUpdater<Element> updater(lines, steps_.data(), count_);
      for_pieces(lines, [=](std::int64_t, std::int64_t begin, std::int64_t end) {
        for (std::int64_t l = begin; l < end; ++l) updater.catch_up(l, updater.count());
      });
    }
    finished_ = count_;
  }

  void finish(const core::TableRows& table) override {
    const std::lock_guard one_thread(mutex_);
    if (finished_ == count_) return;
    for (const Lines& lines : lines_) {
      const std::int64_t offset = table.begin - lines.range.begin;
      if (offset < 0 || offset >= lines.range.size) continue;
      core::require(table.columns % line == 0 && offset % line == 0, "optimizer: rows are whole lines");
      const LineUpdater<Element> updater(lines, steps_.data(), count_);
      const std::int64_t first = offset / line, row_lines = table.columns / line;
      const std::int32_t* const rows = table.rows;
      kernel::for_uneven_items({label_}, table.count, [=](std::int64_t i) {
        const std::int64_t begin = first + (rows == nullptr ? i : rows[i]) * row_lines;
        for (std::int64_t l = begin; l < begin + row_lines; ++l) updater.catch_up(l, updater.count());
      });
    }
  }

 private:
  /// body(piece, begin, end) for the lines [begin, end) of each piece.
  template <class Body>
  void for_pieces(const Lines& lines, const Body& body) const {
    const std::int64_t count = lines.count();
    kernel::for_uneven_items({label_}, kernel::divide_up(count, piece_lines), [=](std::int64_t piece) {
      body(piece, piece * piece_lines, std::min(count, (piece + 1) * piece_lines));
    });
  }

  void clear() const {
    for (const Lines& lines : lines_) {
      set_zero({lines.range.gradient, static_cast<std::size_t>(lines.range.size)}, {lines.range.marks});
    }
  }

  // The thread of an early checkpoint reads everything while the main thread reads rows.
  std::mutex mutex_;
  const char* label_;
  Settings settings_;
  core::Buffer<Constants<Element>> steps_;
  std::vector<core::Buffer<std::uint8_t>> made_;
  std::vector<Lines> lines_;
  std::uint32_t count_ = 0, finished_ = 0;  // steps that have been; that all lines have had
};

}  // namespace postponed

/// Updates of a rule whose Element is made from `Settings`, the step, and whether weights decay.
template <class Element, class Settings>
std::unique_ptr<PostponedSteps> postponed_lines([[maybe_unused]] const char* label,
                                                [[maybe_unused]] std::span<const UpdateRange> ranges,
                                                [[maybe_unused]] const Settings& settings) {
  if constexpr (kernel::on_gpu) {
    return nullptr;
  } else {
    return std::make_unique<postponed::PostponedLines<Element, Settings>>(label, ranges, settings);
  }
}

}  // namespace bert_hpc::ops
