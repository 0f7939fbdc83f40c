// A transposed left operand, packed for blocks of tile registers (tile_block.hpp). Everything has internal linkage (see
// ../isa/tile_kernels.cpp).
#pragma once

#include "../isa/operand_blocks.hpp"
#include "tile_block.hpp"

namespace bert_hpc::ops::cpu {
namespace {

/// Panels of block_rows rows, a row's words one after the other, from a matrix stored (length, count).
template <Source source>
void pack_rows(const PackJob& job) {
  using Words = PairWords;
  const std::int64_t words = (job.length + 1) / 2, whole = job.length / 2;
  for (std::int64_t begin = 0; begin < job.count; begin += lanes) {
    const ElementOf<source>* const from = static_cast<const ElementOf<source>*>(job.from) + begin;
    float* const to = job.to + begin / block_rows * job.panel_stride + begin % block_rows * words;
    const std::int64_t rows = job.count - begin < lanes ? job.count - begin : lanes;
    std::int64_t l = 0;
    for (; rows == lanes && l + lanes <= whole; l += lanes) {
      Vector square[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        square[i] = Words::template down<source>(from + 2 * (l + i) * job.stride, job.stride, 2);
      }
      transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store(to + i * words + l, square[i]);
    }
    for (; l < words; ++l) {
      const ElementOf<source>* const pair = from + 2 * l * job.stride;
      for (std::int64_t r = 0; r < rows; ++r) {
        to[r * words + l] = Words::template one_down<source>(pair + r, job.stride, job.length - 2 * l);
      }
    }
  }
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
