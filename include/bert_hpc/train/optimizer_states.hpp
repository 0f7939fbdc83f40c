// The states that an optimizer keeps of the elements a rank owns: numbers in fp32, or codes of 8 bits with the scale of
// each block of 256 (ops/dynamic8.hpp), and where those of an element are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::train {

class OptimizerStates {
 public:
  /// Position of the states of an element: an index into numbers(), or into codes(), whose scales are one for each
  /// block from index / dynamic8::block on.
  struct Position {
    bool in_blocks = false;
    std::int64_t index = 0;
  };

  explicit OptimizerStates(std::vector<ops::StateTensor> kinds) : kinds_(std::move(kinds)) {}

  /// Elements [begin, begin + size) of the arena, behind those that were added before. In blocks, `size` is a multiple
  /// of a block, but of the last ones.
  Position add(std::int64_t begin, std::int64_t size, bool in_blocks);
  /// Allocates what was added, zeroed.
  void allocate(core::MemoryKind memory);

  std::span<const ops::StateTensor> kinds() const { return kinds_; }
  /// Position of an element that was added.
  Position position_of(std::int64_t arena) const;
  std::int64_t elements() const { return numbers_ + codes_; }

  // Numbers of state number `index`, in the memory that was asked for.
  std::span<float> numbers(std::size_t index) const { return all(arrays_[index].numbers); }
  std::span<std::uint8_t> codes(std::size_t index) const { return all(arrays_[index].codes); }
  std::span<float> scales(std::size_t index) const { return all(arrays_[index].scales); }

 private:
  struct Part {
    std::int64_t begin = 0, size = 0;
    Position position;
  };
  struct Arrays {
    core::Buffer<float> numbers;
    core::Buffer<std::uint8_t> codes;
    core::Buffer<float> scales;
  };
  template <class T>
  static std::span<T> all(const core::Buffer<T>& buffer) {
    return {buffer.data(), static_cast<std::size_t>(buffer.size())};
  }

  std::vector<ops::StateTensor> kinds_;
  std::vector<Part> parts_;  // ascending
  std::int64_t numbers_ = 0, codes_ = 0;
  std::vector<Arrays> arrays_;  // by state
};

/// Whether an optimizer that keeps blocks keeps the states of this parameter so. Pure, and the same on every layout.
bool is_kept_in_blocks(const core::ParameterSlice& slice);

}  // namespace bert_hpc::train
