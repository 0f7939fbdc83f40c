// The inner loops of the native gemms, in GCC's vector extensions. CMake compiles this file once per instruction set,
// with BERT_HPC_ISA as the namespace. Everything except the table has internal linkage: the linker could merge a
// function shared with other files into a copy that the processor cannot run.
#include "tile_steps.hpp"

namespace bert_hpc::ops::cpu::BERT_HPC_ISA {
namespace {

// Prefetches the part of C that the next tile reads.
inline void prefetch_rows(const float* first, std::int64_t stride, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) {
    __builtin_prefetch(first + i * stride);
    __builtin_prefetch(first + i * stride + tile_columns - 1);
  }
}

// A panel of B stays in the first-level cache while the rows of A stream from the second.
template <class Words>
void multiply(const TileJob& job) {
  const std::int64_t a_panel = job.a_packed ? job.a_stride : job.a_stride * tile_rows;
  for (std::int64_t column = 0; column < job.n; column += tile_columns) {
    const float* b = job.b + column / tile_columns * job.b_stride;
    const std::int64_t columns = job.n - column < tile_columns ? job.n - column : tile_columns;
    for (std::int64_t row = 0; row < job.m; row += tile_rows) {
      const float* a = job.a + row / tile_rows * a_panel;
      const std::int64_t rows = job.m - row < tile_rows ? job.m - row : tile_rows;
      if (columns < tile_columns) {
        run_on_copies<tile_rows>(job, row, column, rows, columns, [&](const float* bias, float* c) {
          tile_of_rows<Words>(rows, job.a_packed, a, job.a_stride, b, job.k, job.begin, bias, c, tile_columns);
        });
        continue;
      }
      float* c = job.c + row * job.c_stride + column;
      const std::int64_t next = job.m - row - tile_rows;
      if (next > 0 && job.begin == Begin::existing) {
        prefetch_rows(c + tile_rows * job.c_stride, job.c_stride, next < tile_rows ? next : tile_rows);
      }
      const float* bias = job.begin == Begin::bias ? job.bias + column : nullptr;
      tile_of_rows<Words>(rows, job.a_packed, a, job.a_stride, b, job.k, job.begin, bias, c, job.c_stride);
      if (job.end != End::nothing) {
        finish(job.end, rows, c, job.c_stride, job.second + row * job.second_stride + column, job.second_stride);
      }
    }
  }
}

}  // namespace

const TileKernels& tile_kernels() {
  static constexpr TileKernels kernels = {
      BERT_HPC_TEXT(BERT_HPC_ISA),
      tile_rows,
      tile_columns,
      FloatWords::terms,
      longest_block,
      row_block,
      multiply<FloatWords>,
      {kernels_of<FloatWords, Source::fp32>(), kernels_of<FloatWords, Source::bf16>(),
       kernels_of<FloatWords, Source::fp16>(), kernels_of<FloatWords, Source::fp32_as_bf16>(),
       kernels_of<FloatWords, Source::fp32_as_fp16>()}};
  return kernels;
}

#if defined(BERT_HPC_PAIR_KERNELS)
const TileKernels& pair_kernels() {
  static constexpr TileKernels kernels = {
      BERT_HPC_TEXT(BERT_HPC_ISA),
      tile_rows,
      tile_columns,
      PairWords::terms,
      longest_block,
      row_block,
      multiply<PairWords>,
      {{}, kernels_of<PairWords, Source::bf16>(), {}, kernels_of<PairWords, Source::fp32_as_bf16>(), {}}};
  return kernels;
}
#endif

}  // namespace bert_hpc::ops::cpu::BERT_HPC_ISA
