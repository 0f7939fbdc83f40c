// Gradient rows of word and position embeddings as a GPU sums them: a block takes a row and 32 8-wide packs of columns
// (packs.hpp), a lane one pack. One warp sums a row of few tokens. All warps of the block share the tokens of a
// frequent id ([MASK], "the"), and their sums are added in warp order. add_row_serially() does the same serially on the
// host, so that tests without a GPU compute the results of a GPU.
#pragma once

#include <cstdint>

#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/tensor.hpp"
#include "packs.hpp"

namespace bert_hpc::ops::embedding_rows {

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

/// Adds d_y[token, pack] of tokens warp, warp + step, …, in this order. `whole`: packs have eight columns and are
/// aligned to their size. Several loads are in flight at once; a bounds check per address would prevent that.
template <bool whole, class T>
BERT_HPC_DEVICE void add_tokens_in(const Tokens& tokens, std::int64_t count, int warp, int step,
                                   const core::Tensor<const T>& d_y, std::int64_t pack, float (&sums)[packs::width]) {
  constexpr int at_once = 4;
  const std::int64_t begin = pack * packs::width;
  const int columns = whole ? packs::width : packs::columns_of(pack, d_y.columns);
  for (std::int64_t i = warp; i < count; i += std::int64_t{at_once} * step) {
    std::int64_t token[at_once];
    for (int k = 0; k < at_once; ++k) {
      const std::int64_t index = i + std::int64_t{k} * step;
      token[k] = index < count ? tokens[index] : -1;
    }
    struct alignas(whole ? sizeof(packs::Chunk) : alignof(T)) Pack {
      T values[packs::width];
    };
    Pack pack_of[at_once];
    for (int k = 0; k < at_once; ++k) {
      const T* const from = d_y.row(token[k] < 0 ? 0 : token[k]) + begin;  // any valid row if there is no token
      if constexpr (whole) {
        pack_of[k] = *reinterpret_cast<const Pack*>(from);
      } else {
        for (int j = 0; j < packs::width; ++j) pack_of[k].values[j] = j < columns ? from[j] : T(0.0f);
      }
    }
    for (int k = 0; k < at_once; ++k) {
      for (int j = 0; j < packs::width; ++j) {
        sums[j] += token[k] < 0 ? 0.0f : static_cast<float>(pack_of[k].values[j]);
      }
    }
  }
}

/// sums = Σ d_y[token, pack] over tokens warp, warp + step, ….
template <class T>
BERT_HPC_DEVICE void add_tokens(const Tokens& tokens, std::int64_t count, int warp, int step,
                                const core::Tensor<const T>& d_y, std::int64_t pack, float (&sums)[packs::width]) {
  for (float& sum : sums) sum = 0.0f;
  const bool whole = packs::in_chunks(d_y.data + pack * packs::width, packs::columns_of(pack, d_y.columns)) &&
                     d_y.stride % packs::width == 0;
  if (whole) {
    add_tokens_in<true>(tokens, count, warp, step, d_y, pack, sums);
  } else {
    add_tokens_in<false>(tokens, count, warp, step, d_y, pack, sums);
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
      add_tokens(tokens, count, warp, step, d_y, pack, sums);
      for (int j = 0; j < packs::width; ++j) total[j] = warp == 0 ? sums[j] : total[j] + sums[j];
    }
    for (int j = 0; j < packs::columns_of(pack, d_y.columns); ++j) gradient[pack * packs::width + j] += total[j];
  }
}

}  // namespace bert_hpc::ops::embedding_rows
