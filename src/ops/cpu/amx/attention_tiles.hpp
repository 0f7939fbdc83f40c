// Products of attention in tile registers, their packed operands, and results rounded to bf16. Everything has internal
// linkage (see ../isa/tile_kernels.cpp).
#pragma once

#include <cstdint>

#include "../attention_task.hpp"
#include "../isa/attention_packing.hpp"
#include "../isa/operand_blocks.hpp"
#include "row_panels.hpp"
#include "tile_block.hpp"

namespace bert_hpc::ops::cpu {
namespace {

static_assert(panel == block_columns, "a panel of a right operand is two tiles wide");

/// Words of so many terms, in whole tiles.
constexpr std::int64_t words_of(std::int64_t terms) {
  return round_up(terms, 2 * register_words) / 2;
}

/// C (rows, columns) = or += A·B in blocks of 32 × 32: C has room for whole blocks.
struct TileProduct {
  std::int64_t rows, columns, words;
  const float* a;
  std::int64_t a_row, a_panel;  ///< words from one row to the next, from 32 rows to the next
  const float* b;
  std::int64_t b_panel;  ///< words from one panel to the next
  float* c;
  std::int64_t c_row;
  const IndexRange* needed_columns = nullptr;  ///< as Product's
  const IndexRange* terms = nullptr;           ///< as Product's, in elements
};

template <bool adds>
void multiply(const TileProduct& p) {
  for (std::int64_t row = 0; row < p.rows; row += block_rows) {
    const std::int64_t rows = p.rows - row < block_rows ? p.rows - row : block_rows;
    IndexRange columns{0, p.columns}, words{0, p.words};
    if (p.needed_columns != nullptr) columns = range_of_tile(p.needed_columns, row, rows);
    if (p.terms != nullptr) {
      const IndexRange terms = range_of_tile(p.terms, row, rows);
      words = {terms.begin / (2 * register_words) * register_words, words_of(terms.end)};
      if (terms.size() == 0) words.end = words.begin;
    }
    for (std::int64_t column = columns.begin / block_columns * block_columns; column < columns.end;
         column += block_columns) {
      const Rows a{p.a + row / block_rows * p.a_panel + words.begin, p.a_row};
      const float* const b = p.b + column / block_columns * p.b_panel + words.begin * block_columns;
      float* const c = p.c + row * p.c_row + column;
      const Rows first = adds ? Rows{c, p.c_row} : Rows{};
      if (rows > register_rows) {
        multiply_block<TileTerms::bf16, true>(a, b, words.size(), first, c, p.c_row);
      } else {
        multiply_block<TileTerms::bf16, false>(a, b, words.size(), first, c, p.c_row);
      }
    }
  }
}

/// C = A·B for the first product of C, else C += A·B.
inline void multiply_into(bool first, const TileProduct& product) {
  if (first) {
    multiply<false>(product);
  } else {
    multiply<true>(product);
  }
}

void set_zero(float* data, std::int64_t count) {
  __builtin_memset(data, 0, static_cast<std::size_t>(count) * sizeof(float));
}

/// Words from one panel of 32 columns to the next.
constexpr std::int64_t panel_words(std::int64_t words) {
  return words * block_columns;
}

/// B = Xᵀ for rows of a head: terms are the head's columns.
void pack_transposed_rows(HeadHalves x, std::int64_t rows, std::int64_t head_dim, float* to) {
  const std::int64_t words = words_of(head_dim);
  if (2 * words != head_dim) set_zero(to, round_up(rows, block_columns) * words);
  pack_columns_transposed<PairWords, Source::bf16>({x.data, x.stride, head_dim, rows, to, panel_words(words)});
}

/// B = X: terms are the rows. X is bf16, or fp32 to be rounded, whose row stride is in floats.
template <Source source>
void pack_rows_as_terms(const void* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, float* to) {
  const std::int64_t words = words_of(rows), used = (rows + 1) / 2;
  pack_columns<PairWords, source>({x, stride, rows, columns, to, panel_words(words)});
  for (std::int64_t column = 0; column < columns && used < words; column += block_columns) {
    set_zero(to + column * words + used * block_columns, (words - used) * block_columns);
  }
}

/// A = X with zeros for the rows of a whole block: terms are the head's columns.
void copy_whole_rows(HeadHalves x, std::int64_t rows, std::int64_t head_dim, float* to) {
  const std::int64_t words = words_of(head_dim), all = round_up(rows, block_rows);
  if (2 * words != head_dim) set_zero(to, rows * words);
  copy_rows<PairWords, Source::bf16>({x.data, x.stride, head_dim, rows, to, words});
  set_zero(to + rows * words, (all - rows) * words);
}

/// Zeros behind the vector of a row's last key, up to whole tiles.
void clear_to_whole_tiles(std::int64_t keys, float* row) {
  for (std::int64_t key = round_up(keys, lanes); key < 2 * words_of(keys); key += lanes) store(row + key, Vector{});
}

/// A = a row of scores of whole tiles rounded to bf16: terms are the keys.
void round_row(std::int64_t keys, const float* row, float* to) {
  copy_rows<PairWords, Source::fp32_as_bf16>({row, 0, 2 * words_of(keys), 1, to, 0});
}

/// A = Xᵀ for the whole rows that copy_whole_rows() made: terms are the rows.
void pack_whole_rows_transposed(const float* x, std::int64_t rows, std::int64_t head_dim, float* to) {
  const std::int64_t words = words_of(head_dim), all = round_up(rows, block_rows);
  pack_rows<Source::bf16>({x, 2 * words, all, head_dim, to, block_rows * all / 2});
}

typedef std::uint16_t HalfLanes __attribute__((vector_size(2 * lanes)));

/// Rounds floats to bf16.
void store_halves(const float* from, std::int64_t count, std::uint16_t* to) {
  using Halves = HalfBits<Source::fp32_as_bf16>;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    *reinterpret_cast<UnalignedShorts*>(to + i) = __builtin_convertvector(Halves::vector(from + i), HalfLanes);
  }
  for (; i < count; ++i) to[i] = static_cast<std::uint16_t>(Halves::one(from + i));
}

/// to = Xᵀ rounded to bf16, with whole squares of floats in X (columns, rows).
void store_transposed(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, HeadHalvesOut to) {
  for (std::int64_t row = 0; row < rows; row += lanes) {
    for (std::int64_t column = 0; column < columns; column += lanes) {
      Vector square[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) square[i] = load(x + (column + i) * stride + row);
      transpose(square);
      const std::int64_t count = columns - column < lanes ? columns - column : lanes;
      for (std::int64_t i = 0; i < lanes && row + i < rows; ++i) {
        alignas(64) float numbers[lanes];
        store(numbers, square[i]);
        store_halves(numbers, count, to.data + (row + i) * to.stride + column);
      }
    }
  }
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
