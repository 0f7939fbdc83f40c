// What one pass through the model works on: unpadded token rows, the sequences they belong to, and the keys of
// dropout. All pointers are to memory where kernels run; nothing here owns memory.
#pragma once

#include <cstdint>

namespace bert_hpc::core {

/// A set of token rows, grouped by sequence in order. Either every row of a micro-batch or a selection of them (the
/// rows that a head reads), each still knowing its place in its sequence.
struct TokenRows {
  std::int64_t count = 0;                  ///< rows
  const std::int32_t* offsets = nullptr;   ///< (sequences + 1): rows of sequence b are [offsets[b], offsets[b + 1])
  const std::int32_t* sequence = nullptr;  ///< (count): sequence of each row
  const std::int32_t* position = nullptr;  ///< (count): position of each row in its sequence, from 0
};

/// One dropout site of one pass. The decision for an element is a pure function of (key, site, sample, row position,
/// column): see ops/dropout.hpp.
struct Dropout {
  float probability = 0.0f;              ///< 0 switches the site off
  std::uint32_t key0 = 0, key1 = 0;      ///< from dropout_key(seed, step)
  std::uint32_t site = 0;                ///< which dropout of the model: below 2^16
  const std::int64_t* sample = nullptr;  ///< (sequences): index of each sequence's sample in its data set
};

/// Token ids sorted by id, so that an embedding's gradient is summed per id, in token order, without atomics.
struct SortedIds {
  std::int64_t unique = 0;                 ///< distinct ids
  const std::int32_t* ids = nullptr;       ///< (unique), ascending
  const std::int32_t* segments = nullptr;  ///< (unique + 1): tokens of ids[u] are order[segments[u] … segments[u+1])
  const std::int32_t* order = nullptr;     ///< (tokens): row numbers, ascending within a segment
};

/// A micro-batch on its device.
struct MicroBatch {
  std::int64_t sequences = 0;
  std::int64_t max_length = 0;                   ///< longest sequence, tokens
  TokenRows tokens;                              ///< every token row
  const std::int32_t* input_ids = nullptr;       ///< (tokens)
  const std::int32_t* token_type_ids = nullptr;  ///< (tokens)
  const std::int64_t* sample = nullptr;          ///< (sequences)
  SortedIds sorted_ids;                          ///< of input_ids
  // Targets: those of the task at hand are set, the others null.
  const std::int32_t* class_labels = nullptr;   ///< (sequences), classification
  const float* values = nullptr;                ///< (sequences), regression: standardized
  TokenRows masked;                             ///< rows to predict, masked language modelling
  const std::int32_t* masked_rows = nullptr;    ///< (masked.count): their row numbers in `tokens`
  const std::int32_t* masked_labels = nullptr;  ///< (masked.count): the original ids
  TokenRows first;                              ///< the first token of every sequence
  const std::int32_t* first_rows = nullptr;     ///< (sequences): their row numbers in `tokens`
};

}  // namespace bert_hpc::core
