// Conversion between operands as stored and the words (words.hpp) that tiles multiply: packing into panels, copies of
// rows, blocks of 16-bit results.
#pragma once

#include <cstdint>

#include "bert_hpc/ops/vector_math.hpp"
#include "words.hpp"

namespace bert_hpc::ops::cpu {
namespace {

constexpr std::int64_t tile_columns = panel;

// One piece of a row, of `width` elements. A store of whole vectors may extend past the piece, into memory that the
// next row fills later or the gap after the last panel; a load may not extend past the row.
template <class Words, Source source, int width>
inline void pack_piece(const ElementOf<source>* from, std::int64_t stride, std::int64_t left, std::int64_t rest,
                       float* to) {
  constexpr int whole = (width + lanes - 1) / lanes * lanes;
  if (rest >= whole) {
#pragma GCC unroll 4
    for (int j = 0; j < whole; j += lanes) store(to + j, Words::template down<source>(from + j, stride, left));
  } else if (source == Source::fp32 && rest >= width) {
    __builtin_memcpy(to, from, sizeof(float) * width);
  } else {
    for (std::int64_t j = 0; j < width; ++j) {
      to[j] = j < rest ? Words::template one_down<source>(from + j, stride, left) : 0.0f;
    }
  }
}

// Panels of `width` from a matrix stored (length, count), a few at a time: they read whole cache lines of each row and
// write to no more streams than the first-level cache has ways.
template <class Words, Source source, int width, int together>
inline void pack_stored_by_length(const PackJob& job) {
  for (std::int64_t begin = 0; begin < job.count; begin += width * together) {
    const ElementOf<source>* from = static_cast<const ElementOf<source>*>(job.from) + begin;
    float* to = job.to + begin / width * job.panel_stride;
    const std::int64_t rest = job.count - begin;
    for (std::int64_t left = job.length; left > 0; left -= Words::terms) {
      if (rest >= width * together + lanes) {
#pragma GCC unroll 8
        for (int p = 0; p < together; ++p) {
          pack_piece<Words, source, width>(from + p * width, job.stride, left, lanes * 2, to + p * job.panel_stride);
        }
      } else {
        for (int p = 0; p * width < rest && p < together; ++p) {
          pack_piece<Words, source, width>(from + p * width, job.stride, left, rest - p * width,
                                           to + p * job.panel_stride);
        }
      }
      from += Words::terms * job.stride;
      to += width;
    }
  }
}

template <class Words, Source source>
void pack_columns(const PackJob& job) {
  pack_stored_by_length<Words, source, tile_columns, 4>(job);
}
template <class Words, Source source>
void pack_rows_transposed(const PackJob& job) {
  pack_stored_by_length<Words, source, tile_rows, 8>(job);
}

// Transposes a square of lanes × lanes by exchanging ever larger blocks across the diagonal.
inline void transpose(Vector (&v)[lanes]) {
#pragma GCC unroll 4
  for (int block = 1; block < lanes; block *= 2) {
    IntVector upper, lower;
#pragma GCC unroll 16
    for (int lane = 0; lane < lanes; ++lane) {
      upper[lane] = (lane & block) ? lanes + lane - block : lane;
      lower[lane] = (lane & block) ? lanes + lane : lane + block;
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      if (i & block) continue;
      const Vector a = v[i], b = v[i + block];
      v[i] = __builtin_shuffle(a, b, upper);
      v[i + block] = __builtin_shuffle(a, b, lower);
    }
  }
}

template <class Words, Source source>
void pack_columns_transposed(const PackJob& job) {
  constexpr int terms = Words::terms;
  const std::int64_t words = (job.length + terms - 1) / terms, whole = job.length / terms;
  for (std::int64_t begin = 0; begin < job.count; begin += tile_columns) {
    float* packed = job.to + begin / tile_columns * job.panel_stride;
    for (int half = 0; half < tile_columns; half += lanes) {
      const std::int64_t rows = job.count - begin - half;
      const ElementOf<source>* from = static_cast<const ElementOf<source>*>(job.from) + (begin + half) * job.stride;
      std::int64_t l = 0;
      for (; rows > 0 && l + lanes <= whole; l += lanes) {
        Vector square[lanes];
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) {
          square[i] = i < rows ? Words::template along<source>(from + i * job.stride + l * terms) : Vector{};
        }
        transpose(square);
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) store(packed + (l + i) * tile_columns + half, square[i]);
      }
      for (; l < words; ++l) {
        const std::int64_t term = l * terms, left = job.length - term;
        for (int i = 0; i < lanes; ++i) {
          packed[l * tile_columns + half + i] =
              i < rows ? Words::template one_along<source>(from + i * job.stride + term, left) : 0.0f;
        }
      }
    }
  }
}

template <class Words, Source source>
void copy_rows(const PackJob& job) {
  constexpr int terms = Words::terms;
  for (std::int64_t i = 0; i < job.count; ++i) {
    const ElementOf<source>* from = static_cast<const ElementOf<source>*>(job.from) + i * job.stride;
    float* to = job.to + i * job.panel_stride;
    std::int64_t l = 0;
    for (; l + lanes * terms <= job.length; l += lanes * terms) {
      store(to, Words::template along<source>(from + l));
      to += lanes;
    }
    for (; l < job.length; l += terms) *to++ = Words::template one_along<source>(from + l, job.length - l);
  }
}

// Also for a rounding source, sums are of the numbers as stored.
template <Source source>
void add_column_sums(const void* from, std::int64_t stride, std::int64_t length, std::int64_t count, float* sums) {
  constexpr Source stored = bytes_of(source) == 2 ? source : Source::fp32;
  for (std::int64_t l = 0; l < length; ++l) {
    const ElementOf<stored>* row = static_cast<const ElementOf<stored>*>(from) + l * stride;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < count; ++j) sums[j] += Reader<stored>::one(row + j);
  }
}

template <Source source>
void load_block(const BlockJob& job) {
  for (std::int64_t i = 0; i < job.rows; ++i) {
    const std::uint16_t* from = static_cast<const std::uint16_t*>(job.stored) + i * job.stride;
    float* to = job.block + i * job.block_stride;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < job.columns; ++j) to[j] = Reader<source>::one(from + j);
  }
}

// One row of a block, with `end` known at compile time. gelu is applied to the value as stored.
template <Source source, End end>
inline void store_row(std::int64_t columns, const float* __restrict from, std::uint16_t* __restrict to,
                      std::uint16_t* __restrict second) {
  using Stored = Reader<source>;
#pragma GCC ivdep
  for (std::int64_t j = 0; j < columns; ++j) {
    float value = from[j];
    if constexpr (end == End::gelu_slope) value *= gelu_derivative_in_16_bits(Stored::one(second + j));
    to[j] = Stored::rounded(value);
  }
  if constexpr (end == End::gelu) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < columns; ++j) second[j] = Stored::rounded(gelu_in_16_bits(Stored::one(to + j)));
  }
}

template <Source source>
void store_block(const BlockJob& job) {
  for (std::int64_t i = 0; i < job.rows; ++i) {
    const float* from = job.block + i * job.block_stride;
    std::uint16_t* to = static_cast<std::uint16_t*>(job.stored) + i * job.stride;
    std::uint16_t* second = static_cast<std::uint16_t*>(job.second) + i * job.second_stride;
    if (job.end == End::gelu) {
      store_row<source, End::gelu>(job.columns, from, to, second);
    } else if (job.end == End::gelu_slope) {
      store_row<source, End::gelu_slope>(job.columns, from, to, second);
    } else {
      store_row<source, End::nothing>(job.columns, from, to, nullptr);
    }
  }
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
