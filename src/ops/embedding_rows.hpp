// Embedding look-ups and their gradients as a GPU computes them, in 8-wide packs of columns (packs.hpp).
//
// A look-up is one pack of one token per thread. For gradients of words and positions, each warp of a block takes 32
// packs of a row, a lane one pack, and sums the row's tokens if they are few. Then all warps of the block share the
// tokens of its other rows (of frequent ids, such as [MASK] or "the", and of positions), and their sums are added in
// warp order. add_row_serially() does the same serially on the host, so that tests without a GPU compute the results of
// a GPU.
#pragma once

#include <cstdint>

#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/tensor.hpp"
#include "packs.hpp"

namespace bert_hpc::ops::embedding_rows {

/// The row of a table of types that a token reads.
struct TypeRows {
  const std::int32_t* types;
  std::int64_t rows;

  BERT_HPC_DEVICE std::int64_t operator()(std::int64_t token) const { return rows == 1 ? 0 : types[token]; }
};

/// y_t = (W[id_t] + P[position_t]) + T[type_t], for columns [begin, begin + count) of a token. Without ids, y_t itself
/// is the first term; without positions or types there is no second or third.
template <class T>
struct EmbeddingSum {
  const std::int32_t *ids, *positions;
  TypeRows types;
  core::Tensor<const float> word, position, type;
  core::Tensor<T> y;

  BERT_HPC_DEVICE void operator()(std::int64_t token, std::int64_t begin, int count) const {
    float sum[packs::width], second[packs::width], third[packs::width];
    if (ids != nullptr) {
      packs::load(word.row(ids[token]) + begin, count, sum);
    } else {
      packs::load(y.row(token) + begin, count, sum);
    }
    if (position.rows > 0) packs::load(position.row(positions[token]) + begin, count, second);
    if (type.rows > 0) packs::load(type.row(types(token)) + begin, count, third);
    for (int j = 0; j < packs::width && position.rows > 0; ++j) sum[j] += second[j];
    for (int j = 0; j < packs::width && type.rows > 0; ++j) sum[j] += third[j];
    packs::store(sum, count, y.row(token) + begin);
  }
};

/// y_t = W[id_t − first], or 0 for an id that is in no row.
template <class T>
struct WordEmbedding {
  const std::int32_t* ids;
  std::int64_t first;
  core::Tensor<const float> word;
  core::Tensor<T> y;

  BERT_HPC_DEVICE void operator()(std::int64_t token, std::int64_t begin, int count) const {
    float values[packs::width] = {};
    const std::int64_t row = ids[token] - first;
    if (row >= 0 && row < word.rows) packs::load(word.row(row) + begin, count, values);
    packs::store(values, count, y.row(token) + begin);
  }
};

/// Gradients of types `first` (sums 0 … 7) and `first` + 1 (8 … 15) as sums over tokens (strips.hpp).
template <class T>
struct TypeTerm {
  static constexpr int rows_ahead = sizeof(T) == 2 ? 4 : 2;
  struct Fetched {
    packs::Stored<T> d_y;
    std::int64_t type;
  };
  core::Tensor<const T> d_y;
  TypeRows types;
  std::int64_t first;

  BERT_HPC_DEVICE bool in_chunks() const { return packs::in_chunks(d_y); }
  template <bool whole>
  BERT_HPC_DEVICE Fetched fetch(std::int64_t token, std::int64_t begin, int count) const {
    return {packs::fetch<whole>(d_y.row(token) + begin, count), types(token)};
  }
  template <bool whole, int size>
  BERT_HPC_DEVICE void add(const Fetched& fetched, std::int64_t, std::int64_t, int, float (&sums)[size]) const {
    float part[packs::width];
    packs::widen(fetched.d_y, part);
    for (int j = 0; j < packs::width; ++j) {
      sums[j] += fetched.type == first ? part[j] : 0.0f;
      sums[packs::width + j] += fetched.type == first + 1 ? part[j] : 0.0f;
    }
  }
};

inline constexpr int warps = 8;
inline constexpr std::int64_t most_of_a_warp = 16;  // tokens

/// The tokens whose gradients are summed into a row. Rows are the positions, followed by the distinct ids.
struct Tokens {
  const core::MicroBatch& batch;
  std::int64_t row;

  BERT_HPC_DEVICE bool is_position() const { return row < batch.max_length; }
  BERT_HPC_DEVICE std::int64_t word() const { return row - batch.max_length; }

  BERT_HPC_DEVICE std::int64_t count() const {
    if (is_position()) return batch.sequences;
    return batch.sorted_ids.segments[word() + 1] - batch.sorted_ids.segments[word()];
  }
  /// −1: none, if a sequence is shorter.
  BERT_HPC_DEVICE std::int64_t operator[](std::int64_t index) const {
    if (!is_position()) return batch.sorted_ids.order[batch.sorted_ids.segments[word()] + index];
    const std::int64_t token = batch.tokens.offsets[index] + row;
    return token < batch.tokens.offsets[index + 1] ? token : -1;
  }
};

/// Number of warps that share a row of this many tokens.
BERT_HPC_DEVICE int warps_of(std::int64_t tokens) {
  return tokens > most_of_a_warp ? warps : 1;
}

/// Adds d_y[token, pack] of tokens warp, warp + step, …, in this order, with `at_once` loads in flight. `whole`: packs
/// have eight columns and are aligned to their size.
template <bool whole, int at_once, class T>
BERT_HPC_DEVICE void add_tokens_in(const Tokens& tokens, std::int64_t count, int warp, int step,
                                   const core::Tensor<const T>& d_y, std::int64_t pack, float (&sums)[packs::width]) {
  const std::int64_t begin = pack * packs::width;
  const int columns = whole ? packs::width : packs::columns_of(pack, d_y.columns);
  for (std::int64_t i = warp; i < count; i += std::int64_t{at_once} * step) {
    std::int32_t token[at_once];
    for (int k = 0; k < at_once; ++k) {
      const std::int64_t index = i + std::int64_t{k} * step;
      token[k] = index < count ? static_cast<std::int32_t>(tokens[index]) : -1;
    }
    struct alignas(whole ? sizeof(packs::Chunk) : alignof(T)) Pack {
      T values[packs::width];
    };
    Pack pack_of[at_once] = {};
    for (int k = 0; k < at_once; ++k) {
      if (token[k] < 0) continue;
      const T* const from = d_y.row(token[k]) + begin;
      if constexpr (whole) {
        pack_of[k] = *reinterpret_cast<const Pack*>(from);
      } else {
        for (int j = 0; j < packs::width; ++j) pack_of[k].values[j] = j < columns ? from[j] : T(0.0f);
      }
    }
    for (int k = 0; k < at_once; ++k) {
      for (int j = 0; j < packs::width; ++j) {
        sums[j] += static_cast<float>(pack_of[k].values[j]);
      }
    }
  }
}

/// sums = Σ d_y[token, pack] over tokens warp, warp + step, ….
template <int at_once, class T>
BERT_HPC_DEVICE void add_tokens(const Tokens& tokens, std::int64_t count, int warp, int step,
                                const core::Tensor<const T>& d_y, std::int64_t pack, float (&sums)[packs::width]) {
  for (float& sum : sums) sum = 0.0f;
  const bool whole = packs::in_chunks(d_y.data + pack * packs::width, packs::columns_of(pack, d_y.columns)) &&
                     d_y.stride % packs::width == 0;
  if (whole) {
    add_tokens_in<true, at_once>(tokens, count, warp, step, d_y, pack, sums);
  } else {
    add_tokens_in<false, at_once>(tokens, count, warp, step, d_y, pack, sums);
  }
}

/// gradient (columns of d_y) += Σ d_y[token]
template <class T>
void add_row_serially(const Tokens& tokens, const core::Tensor<const T>& d_y, float* gradient) {
  const std::int64_t count = tokens.count();
  const int step = warps_of(count);
  for (std::int64_t pack = 0; pack < packs::count_of(d_y.columns); ++pack) {
    float total[packs::width] = {};
    for (int warp = 0; warp < step; ++warp) {
      float sums[packs::width];
      add_tokens<4>(tokens, count, warp, step, d_y, pack, sums);
      for (int j = 0; j < packs::width; ++j) total[j] = warp == 0 ? sums[j] : total[j] + sums[j];
    }
    for (int j = 0; j < packs::columns_of(pack, d_y.columns); ++j) gradient[pack * packs::width + j] += total[j];
  }
}

}  // namespace bert_hpc::ops::embedding_rows
