// The inner loops of gemms of bf16 on Intel's AMX, in blocks of tile registers (tile_block.hpp). B is packed as for
// vectors; A is read in place or from panels of 32 rows that are packed row by word. The words of k behind the last
// whole tile are added by vectors.
//
// Bits: an element of C adds, for each 16 words along k, one sum of all their products (tile_registers.hpp), in order
// of k. They depend on the operands and on how k is divided into blocks, which follows from k alone.
#include "../isa/tile_steps.hpp"
#include "row_panels.hpp"
#include "tile_block.hpp"

namespace bert_hpc::ops::cpu::BERT_HPC_ISA {
namespace {

static_assert(tile_columns == block_columns, "a panel of B is two tiles wide");
static_assert(longest_block % register_words == 0, "whole blocks along k are whole tiles");

/// A panel of B takes 24 KiB, half of the first-level cache: a tile's rows of A stream through the rest. Weight
/// gradients, whose C is loaded and stored for each block, have the longest blocks.
constexpr std::int64_t longest_in_place = 192;

/// All of a block's terms: C (rows, tile_columns), of which whole tiles are written.
inline void run_block(std::int64_t rows, const Rows& a, const float* b, std::int64_t k, Begin begin, const float* bias,
                      float* c, std::int64_t c_stride) {
  const std::int64_t deep = k / register_words * register_words;
  const Rows first = begin == Begin::zero ? Rows{} : begin == Begin::bias ? Rows{bias, 0} : Rows{c, c_stride};
  if (deep > 0 && rows > register_rows) {
    multiply_block<TileTerms::bf16, true>(a, b, deep, first, c, c_stride);
  } else if (deep > 0) {
    multiply_block<TileTerms::bf16, false>(a, b, deep, first, c, c_stride);
  }
  if (deep == k) return;
  for (std::int64_t row = 0; row < rows; row += tile_rows) {
    tile_of_rows<PairWords>(rows - row < tile_rows ? rows - row : tile_rows, false,
                            static_cast<const float*>(a.at(row, deep)), a.stride, b + deep * tile_columns, k - deep,
                            deep > 0 ? Begin::existing : begin, bias, c + row * c_stride, c_stride);
  }
}

void multiply(const TileJob& job) {
  const std::int64_t whole = job.m / block_rows * block_rows, rest = job.m - whole;
  const auto rows_from = [&job](std::int64_t row) -> Rows {
    if (job.a_packed) return {job.a + row / block_rows * job.a_stride, job.k};
    return {job.a + row * job.a_stride, job.a_stride};
  };
  // Tiles have whole rows: the last ones are copied and followed by zeros.
  alignas(64) float last[block_rows * longest_block];
  if (rest > 0) {
    const Rows from = rows_from(whole);
    copy(static_cast<const float*>(from.data), from.stride, rest, job.k, last, job.k);
    for (std::int64_t i = rest * job.k; i < block_rows * job.k; ++i) last[i] = 0.0f;
  }
  TileRegisters::configure();
  for (std::int64_t column = 0; column < job.n; column += tile_columns) {
    const float* b = job.b + column / tile_columns * job.b_stride;
    const std::int64_t columns = job.n - column < tile_columns ? job.n - column : tile_columns;
    for (std::int64_t row = 0; row < job.m; row += block_rows) {
      const Rows a = row < whole ? rows_from(row) : Rows{last, job.k};
      const std::int64_t rows = row < whole ? block_rows : rest;
      if (columns < tile_columns || rows < block_rows) {
        run_on_copies<block_rows>(job, row, column, rows, columns, [&](const float* bias, float* c) {
          run_block(rows, a, b, job.k, job.begin, bias, c, tile_columns);
        });
        continue;
      }
      float* const c = job.c + row * job.c_stride + column;
      run_block(rows, a, b, job.k, job.begin, job.begin == Begin::bias ? job.bias + column : nullptr, c, job.c_stride);
      if (job.end == End::nothing) continue;
      finish(job.end, rows, c, job.c_stride, job.second + row * job.second_stride + column, job.second_stride);
    }
  }
  TileRegisters::release();
}

template <Source source>
constexpr SourceKernels pair_kernels_of() {
  SourceKernels kernels = kernels_of<PairWords, source>();
  kernels.pack_rows_transposed = pack_rows<source>;
  return kernels;
}

}  // namespace

const TileKernels& pair_kernels() {
  static constexpr TileKernels kernels = {
      BERT_HPC_TEXT(BERT_HPC_ISA),
      block_rows,
      tile_columns,
      PairWords::terms,
      longest_in_place,
      row_block,
      multiply,
      {{}, pair_kernels_of<Source::bf16>(), {}, pair_kernels_of<Source::fp32_as_bf16>(), {}}};
  return kernels;
}

/// Products of small whole numbers, which are exact.
bool pair_kernels_are_right() {
  constexpr std::int64_t m = block_rows, n = tile_columns, k = 2 * register_words;  // words
  alignas(64) static float a[m * k], b[k * n], c[m * n];
  const auto number = [](std::int64_t i, std::int64_t j) { return static_cast<float>((7 * i + 3 * j) % 11 - 5); };
  const auto pair = [](float first, float second) {
    std::uint32_t low, high;
    __builtin_memcpy(&low, &first, sizeof low);
    __builtin_memcpy(&high, &second, sizeof high);
    const std::uint32_t both = low >> 16 | (high & 0xFFFF0000u);
    float word;
    __builtin_memcpy(&word, &both, sizeof word);
    return word;
  };
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t l = 0; l < k; ++l) a[i * k + l] = pair(number(i, 2 * l), number(i, 2 * l + 1));
  }
  for (std::int64_t l = 0; l < k; ++l) {
    for (std::int64_t j = 0; j < n; ++j) b[l * n + j] = pair(number(2 * l, j + 1), number(2 * l + 1, j + 1));
  }
  multiply({.m = m, .n = n, .k = k, .a = a, .a_stride = k, .b = b, .b_stride = n * k, .c = c, .c_stride = n});
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < 2 * k; ++l) sum += number(i, l) * number(l, j + 1);
      if (c[i * n + j] != sum) return false;
    }
  }
  return true;
}

}  // namespace bert_hpc::ops::cpu::BERT_HPC_ISA
