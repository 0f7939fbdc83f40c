// Optimizer states in blocks: neighbouring numbers of 8 bits that have one scale. Which tensors have them, and how they
// are divided, is the same on every layout and in checkpoints.
#pragma once

#include <cstdint>

namespace bert_hpc::core::state_blocks {

inline constexpr std::int64_t size = 256;
/// The states of tensors with fewer elements stay in fp32, as those of biases and norms do.
inline constexpr std::int64_t least_elements = 4096;

/// Whether states in blocks are so for a tensor with this many elements, the parts of all ranks together.
constexpr bool are_kept(std::int64_t elements) {
  return elements >= least_elements;
}
/// Blocks that so many elements lie in, `phase` of whose first block lie before them.
constexpr std::int64_t count(std::int64_t elements, std::int64_t phase = 0) {
  return (phase + elements + size - 1) / size;
}

}  // namespace bert_hpc::core::state_blocks
