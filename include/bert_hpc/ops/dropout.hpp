// Counter-based dropout (Srivastava et al. 2014). The decision for an element is a function of (seed, step, site,
// sample, position in the sample), independent of ranks, micro-batches and threads. Backward regenerates it instead of
// reading a mask.
//
// One Philox block (128 bits) decides eight neighbouring columns of a hidden state, with 16 bits each. An element is
// dropped if its 16 bits are below round(65536·p); kept elements are divided by the exact probability of being kept.
//   counter = (block, row in the sample, sample mod 2^32, site + 2^16·(sample / 2^32))
//   key = dropout_key(seed, step)
// The block is column / 8 and "row in the sample" is the token's position. The 16-bit value j of a block is the low (j
// even) or high (j odd) half of word j / 2. Attention probabilities have blocks and rows of their own:
// ops/attention_dropout.hpp.
#pragma once

#include <cstdint>

#include "bert_hpc/core/device.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/rng.hpp"

namespace bert_hpc::ops {

using core::ConstMatrix;
using core::Dropout;
using core::Matrix;
using core::Tensor;
using core::TokenRows;

/// An element is dropped if its 16 bits are below this threshold.
BERT_HPC_DEVICE std::uint32_t dropout_threshold(float probability) {
  return static_cast<std::uint32_t>(probability * 65536.0f + 0.5f);
}

/// 1 / (probability of being kept).
BERT_HPC_DEVICE float dropout_scale(std::uint32_t threshold) {
  return 65536.0f / static_cast<float>(65536u - threshold);
}

/// The 128 bits of block `block` of row `row` of sample `sample`.
BERT_HPC_DEVICE core::Philox4 dropout_bits(const Dropout& dropout, std::int64_t sample, std::uint32_t row,
                                           std::uint32_t block) {
  const std::uint64_t s = static_cast<std::uint64_t>(sample);
  return core::philox(block, row, static_cast<std::uint32_t>(s),
                      dropout.site | (static_cast<std::uint32_t>(s >> 32) << 16), dropout.key0, dropout.key1);
}

/// Whether element j (0 … 7) of hidden states' block is kept.
BERT_HPC_DEVICE bool dropout_keeps(const core::Philox4& bits, int j, std::uint32_t threshold) {
  return ((bits.word[j / 2] >> (16 * (j % 2))) & 0xFFFFu) >= threshold;
}

/// Sets the dropout key of a step.
inline void set_dropout_key(Dropout& dropout, std::uint64_t seed, std::uint64_t step) {
  const std::uint64_t key = core::mix64(core::mix64(seed) ^ (step * 0x9E3779B97F4A7C15ull));
  dropout.key0 = static_cast<std::uint32_t>(key);
  dropout.key1 = static_cast<std::uint32_t>(key >> 32);
}

/// y = dropout(x) on hidden states; y may be x. `rows` gives the sequence and position of each row. The function is its
/// own backward pass: d_x = dropout(d_y). x and y have the same element type.
void dropout(const Dropout& dropout, const TokenRows& rows, ConstMatrix x, Matrix y);

}  // namespace bert_hpc::ops
