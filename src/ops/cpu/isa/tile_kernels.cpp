// The inner loops of the native gemms, in GCC's vector extensions. CMake compiles this file once per instruction set,
// with BERT_HPC_ISA as the namespace. Everything except the table has internal linkage: the linker could merge a
// function shared with other files into a copy that the processor cannot run.
//
// A tile of C of `rows` × two vectors stays in registers; for each term, one vector pair of B is multiplied by `rows`
// broadcast elements of A (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008). This
// gives enough independent multiply-adds to hide their latency, and fewer loads than multiply-adds.
#include "../tile_kernels.hpp"

#include "bert_hpc/ops/vector_math.hpp"
#include "operand_blocks.hpp"

namespace bert_hpc::ops::cpu::BERT_HPC_ISA {
namespace {

// c (R, tile_columns) with its initial value, plus k words of terms. If A is not packed, a_stride is its row stride.
template <class Words, int R, bool packed>
inline void tile(const float* __restrict a, std::int64_t a_stride, const float* __restrict b, std::int64_t k,
                 Begin begin, const float* bias, float* __restrict c, std::int64_t c_stride) {
  Vector left[R], right[R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    if (begin == Begin::existing) {
      left[i] = load(c + i * c_stride);
      right[i] = load(c + i * c_stride + lanes);
    } else if (begin == Begin::bias) {
      left[i] = load(bias);
      right[i] = load(bias + lanes);
    } else {
      left[i] = right[i] = Vector{};
    }
  }
  for (std::int64_t l = 0; l < k; ++l) {
    const Vector b0 = load(b), b1 = load(b + lanes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const auto factor = Words::factor(packed ? a + i : a + i * a_stride);
      left[i] = Words::multiply_add(factor, b0, left[i]);
      right[i] = Words::multiply_add(factor, b1, right[i]);
    }
    a += packed ? tile_rows : 1;
    b += tile_columns;
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    store(c + i * c_stride, left[i]);
    store(c + i * c_stride + lanes, right[i]);
  }
}

template <class Words, int R = tile_rows>
inline void tile_of_rows(std::int64_t rows, bool packed, const float* a, std::int64_t a_stride, const float* b,
                         std::int64_t k, Begin begin, const float* bias, float* c, std::int64_t c_stride) {
  if (rows == R) {
    if (packed) return tile<Words, R, true>(a, a_stride, b, k, begin, bias, c, c_stride);
    return tile<Words, R, false>(a, a_stride, b, k, begin, bias, c, c_stride);
  }
  if constexpr (R > 1) tile_of_rows<Words, R - 1>(rows, packed, a, a_stride, b, k, begin, bias, c, c_stride);
}

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

// A tile at the right edge: the same computation on padded copies.
template <class Words>
void edge_tile(const TileJob& job, const float* a, const float* b, std::int64_t row, std::int64_t column,
               std::int64_t rows, std::int64_t columns) {
  float c[tile_rows * tile_columns] = {}, second[tile_rows * tile_columns] = {}, bias[tile_columns] = {};
  float* c_out = job.c + row * job.c_stride + column;
  float* second_out = job.second == nullptr ? nullptr : job.second + row * job.second_stride + column;
  if (job.begin == Begin::existing) copy(c_out, job.c_stride, rows, columns, c, tile_columns);
  if (job.begin == Begin::bias) copy(job.bias + column, 0, 1, columns, bias, 0);
  if (job.end == End::gelu_slope) copy(second_out, job.second_stride, rows, columns, second, tile_columns);
  tile_of_rows<Words>(rows, job.a_packed, a, job.a_stride, b, job.k, job.begin, bias, c, tile_columns);
  finish(job.end, rows, c, tile_columns, second, tile_columns);
  copy(c, tile_columns, rows, columns, c_out, job.c_stride);
  if (job.end == End::gelu) copy(second, tile_columns, rows, columns, second_out, job.second_stride);
}

// Prefetches the part of C that the next tile reads.
inline void prefetch_rows(const float* first, std::int64_t stride, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) {
    __builtin_prefetch(first + i * stride);
    __builtin_prefetch(first + i * stride + tile_columns - 1);
  }
}

// Processors with 512-bit vectors have second-level caches of at least 1 MiB, others often 256 KiB.
constexpr std::int64_t row_block = (lanes == 16 ? std::int64_t{512} : 160) << 8;

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
        edge_tile<Words>(job, a, b, row, column, rows, columns);
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

#define BERT_HPC_TEXT_OF(name) #name
#define BERT_HPC_TEXT(name) BERT_HPC_TEXT_OF(name)

const TileKernels& tile_kernels() {
  static constexpr TileKernels kernels = {
      BERT_HPC_TEXT(BERT_HPC_ISA),
      tile_rows,
      tile_columns,
      FloatWords::terms,
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
      row_block,
      multiply<PairWords>,
      {{}, kernels_of<PairWords, Source::bf16>(), {}, kernels_of<PairWords, Source::fp32_as_bf16>(), {}}};
  return kernels;
}
#endif

}  // namespace bert_hpc::ops::cpu::BERT_HPC_ISA
