// What the native gemms of all instruction sets share: what follows the last term of a tile (register_tile.hpp), and
// the table of packing functions. Everything has internal linkage (see tile_kernels.cpp).
#pragma once

#include "../tile_kernels.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "operand_blocks.hpp"
#include "register_tile.hpp"

namespace bert_hpc::ops::cpu::BERT_HPC_ISA {
namespace {

// Finishes a tile while it is in the first-level cache. Always uses whole vectors, so that an element's bits do not
// depend on its position.
inline void finish(End end, std::int64_t rows, float* __restrict c, std::int64_t c_stride, float* __restrict second,
                   std::int64_t second_stride) {
  if (end == End::nothing) return;
  for (std::int64_t i = 0; i < rows; ++i) {
    float* c_row = c + i * c_stride;
    float* second_row = second + i * second_stride;
    if (end == End::gelu) {
#pragma GCC ivdep
      for (int j = 0; j < tile_columns; ++j) second_row[j] = gelu(c_row[j]);
    } else {
#pragma GCC ivdep
      for (int j = 0; j < tile_columns; ++j) c_row[j] *= gelu_derivative(second_row[j]);
    }
  }
}

void copy(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, float* to,
          std::int64_t to_stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) to[i * to_stride + j] = from[i * from_stride + j];
  }
}

// A block of C at its lower or right edge, of at most `most_rows` rows: run(bias, c) computes it in padded copies.
template <std::int64_t most_rows, class Run>
inline void run_on_copies(const TileJob& job, std::int64_t row, std::int64_t column, std::int64_t rows,
                          std::int64_t columns, const Run& run) {
  alignas(64) float c[most_rows * tile_columns] = {}, second[most_rows * tile_columns] = {}, bias[tile_columns] = {};
  float* const c_out = job.c + row * job.c_stride + column;
  float* const second_out = job.second == nullptr ? nullptr : job.second + row * job.second_stride + column;
  if (job.begin == Begin::existing) copy(c_out, job.c_stride, rows, columns, c, tile_columns);
  if (job.begin == Begin::bias) copy(job.bias + column, 0, 1, columns, bias, 0);
  if (job.end == End::gelu_slope) copy(second_out, job.second_stride, rows, columns, second, tile_columns);
  run(bias, c);
  finish(job.end, rows, c, tile_columns, second, tile_columns);
  copy(c, tile_columns, rows, columns, c_out, job.c_stride);
  if (job.end == End::gelu) copy(second, tile_columns, rows, columns, second_out, job.second_stride);
}

// Processors with 512-bit vectors have second-level caches of at least 1 MiB, others often 256 KiB.
constexpr std::int64_t row_block = (lanes == 16 ? std::int64_t{512} : 160) << 8;

template <class Words, Source source>
constexpr SourceKernels kernels_of() {
  SourceKernels kernels{pack_columns<Words, source>,
                        pack_columns_transposed<Words, source>,
                        pack_rows_transposed<Words, source>,
                        copy_rows<Words, source>,
                        add_column_sums<source>,
                        nullptr,
                        nullptr};
  if constexpr (bytes_of(source) == 2) {
    kernels.load_block = load_block<source>;
    kernels.store_block = store_block<source>;
  }
  return kernels;
}

}  // namespace
}  // namespace bert_hpc::ops::cpu::BERT_HPC_ISA
