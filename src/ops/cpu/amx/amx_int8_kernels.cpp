// The inner loops of products of 8-bit integers on Intel's AMX, in blocks of tile registers (tile_block.hpp). Words and
// panels are those of the vector kernels for bytes, which do everything else. Sums are exact, so bits are the same.
#include "../int8/int8_kernels.hpp"
#include "tile_block.hpp"

#if !defined(BERT_HPC_BYTE_KERNELS)
#define BERT_HPC_BYTE_KERNELS x86_64_v4_vnni
#endif

namespace bert_hpc::ops::cpu::BERT_HPC_BYTE_KERNELS {
const Int8Kernels& int8_kernels();
}

namespace bert_hpc::ops::cpu::BERT_HPC_ISA {
namespace {

static_assert(int8_block_words % register_words == 0, "whole blocks along k are whole tiles");

// Rows behind the last one, up to a multiple of 32, are computed too: memory of a block of rows has them.
void multiply(const IntegerJob& job) {
  const std::int64_t deep = job.k / register_words * register_words;
  if (deep > 0) {
    TileRegisters::configure();
    for (std::int64_t column = 0; column < job.n; column += block_columns) {
      const std::uint32_t* const b = job.b + column / block_columns * job.b_stride;
      for (std::int64_t row = 0; row < job.m; row += block_rows) {
        const Rows a{job.a + row * job.a_stride, job.a_stride};
        std::int32_t* const c = job.c + row * job.c_stride + column;
        const Rows first = job.adds ? Rows{c, job.c_stride} : Rows{};
        if (job.m - row > register_rows) {
          multiply_block<TileTerms::bytes, true>(a, b, deep, first, c, job.c_stride);
        } else {
          multiply_block<TileTerms::bytes, false>(a, b, deep, first, c, job.c_stride);
        }
      }
    }
    TileRegisters::release();
  }
  if (deep == job.k) return;
  IntegerJob rest = job;
  rest.a += deep;
  rest.b += deep * block_columns;
  rest.k -= deep;
  rest.adds = job.adds || deep > 0;
  BERT_HPC_BYTE_KERNELS::int8_kernels().multiply(rest);
}

}  // namespace

const Int8Kernels& int8_kernels() {
  static const Int8Kernels kernels = [] {
    Int8Kernels all = BERT_HPC_BYTE_KERNELS::int8_kernels();
    all.name = "x86_64_amx";
    all.rows = block_rows;
    all.multiply = multiply;
    return all;
  }();
  return kernels;
}

/// A product of small numbers.
bool int8_kernels_are_right() {
  constexpr std::int64_t m = block_rows, n = block_columns, k = 2 * register_words;  // words
  static std::uint32_t a[m * k], b[k * n];
  static std::int32_t c[m * n];
  for (std::int64_t i = 0; i < m * k; ++i) a[i] = static_cast<std::uint32_t>(i * 2654435761);
  for (std::int64_t i = 0; i < k * n; ++i) b[i] = static_cast<std::uint32_t>(i * 2246822519);
  multiply({.m = m, .n = n, .k = k, .a = a, .a_stride = k, .b = b, .b_stride = n * k, .c = c, .c_stride = n});
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        for (int shift = 0; shift < 32; shift += 8) {
          sum += static_cast<std::int32_t>(a[i * k + l] >> shift & 255) *
                 static_cast<std::int8_t>(b[l * n + j] >> shift & 255);
        }
      }
      if (c[i * n + j] != sum) return false;
    }
  }
  return true;
}

}  // namespace bert_hpc::ops::cpu::BERT_HPC_ISA
