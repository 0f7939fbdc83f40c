// A head's position bias as the CPU's attention reads it: one number a distance of one sequence, so that a row of
// scores adds neighbouring numbers, and the same for the gradients.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention_task.hpp"
#include "bert_hpc/ops/attention.hpp"

namespace bert_hpc::ops::cpu {

/// Numbers by distance -(keys - 1) … keys - 1, with room for whole vectors of keys on both sides.
class DistanceRow {
 public:
  /// `memory`: floats(keys) elements.
  DistanceRow(float* memory, std::int64_t keys) : begin_(memory), keys_(keys) {}

  static std::int64_t floats(std::int64_t keys) { return (2 * keys + 2 * margin + 15) / 16 * 16; }
  /// The number of distance 0.
  float* center() const { return begin_ + margin + keys_; }

  /// factor · the bias of each distance.
  void fill(const PositionBias& bias, std::int64_t head, float factor) const {
    std::fill_n(begin_, floats(keys_), 0.0f);
    for (std::int64_t distance = 1 - keys_; distance < keys_; ++distance) {
      center()[distance] = factor * bias.table(head, bias.bucket_of(distance));
    }
  }
  void clear() const { std::fill_n(begin_, floats(keys_), 0.0f); }
  /// d_bias = factor · the numbers, at the slots of a sequence that begins at this key row.
  void store(std::int64_t first_key, float factor, float* d_bias) const {
    for (std::int64_t distance = 1 - keys_; distance <= keys_; ++distance) {
      d_bias[distance_slot(first_key, keys_, distance)] = distance < keys_ ? factor * center()[distance] : 0.0f;
    }
  }

 private:
  static constexpr std::int64_t margin = distance_margin;

  float* begin_;
  std::int64_t keys_;
};

}  // namespace bert_hpc::ops::cpu
