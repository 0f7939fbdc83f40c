// Rotary position embeddings (Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021): query
// and key heads are rotated by angles that grow with the position, so that their dot products depend on distances.
#pragma once

#include <cstdint>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"

namespace bert_hpc::ops {

inline constexpr std::int64_t most_rotated_pairs = 128;  ///< of a head

/// Angles in radians by which one position rotates the pairs of a head's columns.
struct RotaryFrequencies {
  std::int64_t pairs = 0;  ///< half of the head's columns; 0: nothing is rotated
  float values[most_rotated_pairs] = {};

  /// theta^(−2·c / head_dim), rounded as PyTorch does in fp32. head_dim: even, at most 2 · most_rotated_pairs.
  static RotaryFrequencies of(double theta, std::int64_t head_dim);
};

/// gradient: by the opposite angles, which are those of the backward pass.
enum class Rotation { forward, gradient };

/// Rotates columns c and c + pairs of each head in place: (a, b) becomes (a·cos − b·sin, b·cos + a·sin) of the angle
/// position · frequency c. x (rows.count, heads · 2 · pairs), with any row stride; sines and products in fp32.
void rotate(const RotaryFrequencies& frequencies, Rotation rotation, const core::TokenRows& rows, core::Matrix x);

}  // namespace bert_hpc::ops
