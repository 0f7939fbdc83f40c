// Dropout of hidden states as a GPU's threads compute it: one block of dropout bits, and thus eight columns, per
// thread. The body also runs on the host, so that tests without a GPU compute the results of a GPU.
#pragma once

#include <cstdint>

#include "bert_hpc/ops/dropout.hpp"
#include "packs.hpp"

namespace bert_hpc::ops::packs {

/// y = x ∘ keep / P(keep). `aligned`: the first column of x begins a block of bits. Otherwise packs begin where blocks
/// do, so the first of a row contains `skipped()` columns that x does not have.
template <bool aligned, class T>
struct DropoutPack {
  Dropout site;
  TokenRows rows;
  std::uint32_t threshold;
  float scale;
  Tensor<const T> x;
  Tensor<T> y;

  BERT_HPC_DEVICE std::int64_t skipped() const { return aligned ? 0 : site.first_column % width; }

  /// Columns [begin, begin + count) of row `row`, counted from the first that is skipped.
  BERT_HPC_DEVICE void operator()(std::int64_t row, std::int64_t begin, int count) const {
    const core::Philox4 bits =
        dropout_bits(site, site.sample[rows.sequence[row]], static_cast<std::uint32_t>(rows.position[row]),
                     static_cast<std::uint32_t>((site.first_column + begin) / width));
    if constexpr (aligned) {
      float value[width];
      load(x.row(row) + begin, count, value);
      for (int j = 0; j < width; ++j) value[j] *= dropout_keeps(bits, j, threshold) ? scale : 0.0f;
      store(value, count, y.row(row) + begin);
    } else {
      const std::int64_t first = begin - skipped();
      for (int j = 0; j < width; ++j) {
        const float factor = dropout_keeps(bits, j, threshold) ? scale : 0.0f;
        if (j < count && first + j >= 0) y(row, first + j) = x(row, first + j) * factor;
      }
    }
  }
};

}  // namespace bert_hpc::ops::packs
