// The native products' inner loops, in GCC's vector extensions. CMake compiles this file once per instruction set, with
// BERT_HPC_ISA naming the namespace, and everything in it has internal linkage but the table: a function shared with
// other files could be merged with a copy that the processor cannot run.
//
// A tile of C of `rows` × two vectors stays in registers while one vector pair of B and `rows` broadcast elements of A
// are multiplied per term (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008): enough
// independent multiply-adds to hide their latency, and fewer loads than multiply-adds.
#include "../tile_kernels.hpp"

#include "bert_hpc/ops/vector_math.hpp"

namespace bert_hpc::ops::cpu::BERT_HPC_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16, tile_rows = 12;
#elif defined(__AVX2__)
constexpr int lanes = 8, tile_rows = 6;
#else
constexpr int lanes = 4, tile_rows = 6;
#endif
constexpr int tile_columns = 2 * lanes;

typedef float Vector __attribute__((vector_size(lanes * 4), may_alias));
typedef float Unaligned __attribute__((vector_size(lanes * 4), aligned(4), may_alias));
typedef int Lanes __attribute__((vector_size(lanes * 4)));

inline Vector load(const float* from) {
  return *reinterpret_cast<const Unaligned*>(from);
}
inline void store(float* to, const Vector& value) {
  *reinterpret_cast<Unaligned*>(to) = value;
}

// c (R, tile_columns) begun as told, plus k terms. a_stride counts from row to row where A is not packed.
template <int R, bool packed>
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
      const float factor = packed ? a[i] : a[i * a_stride];
      left[i] += factor * b0;
      right[i] += factor * b1;
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

template <int R>
inline void tile_of_rows(std::int64_t rows, bool packed, const float* a, std::int64_t a_stride, const float* b,
                         std::int64_t k, Begin begin, const float* bias, float* c, std::int64_t c_stride) {
  if (rows == R) {
    if (packed) return tile<R, true>(a, a_stride, b, k, begin, bias, c, c_stride);
    return tile<R, false>(a, a_stride, b, k, begin, bias, c, c_stride);
  }
  if constexpr (R > 1) tile_of_rows<R - 1>(rows, packed, a, a_stride, b, k, begin, bias, c, c_stride);
}

// What follows a finished tile, while it is in the first cache. Whole vectors always, so that an element's bits do not
// depend on its place.
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
void edge_tile(const TileJob& job, const float* a, const float* b, std::int64_t row, std::int64_t column,
               std::int64_t rows, std::int64_t columns) {
  float c[tile_rows * tile_columns] = {}, second[tile_rows * tile_columns] = {}, bias[tile_columns] = {};
  float* c_out = job.c + row * job.c_stride + column;
  float* second_out = job.second == nullptr ? nullptr : job.second + row * job.second_stride + column;
  if (job.begin == Begin::existing) copy(c_out, job.c_stride, rows, columns, c, tile_columns);
  if (job.begin == Begin::bias) copy(job.bias + column, 0, 1, columns, bias, 0);
  if (job.end == End::gelu_slope) copy(second_out, job.second_stride, rows, columns, second, tile_columns);
  tile_of_rows<tile_rows>(rows, job.a_packed, a, job.a_stride, b, job.k, job.begin, bias, c, tile_columns);
  finish(job.end, rows, c, tile_columns, second, tile_columns);
  copy(c, tile_columns, rows, columns, c_out, job.c_stride);
  if (job.end == End::gelu) copy(second, tile_columns, rows, columns, second_out, job.second_stride);
}

// What the next tile reads of its place in C is asked for while this one is computed.
inline void prefetch_rows(const float* place, std::int64_t stride, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) {
    __builtin_prefetch(place + i * stride);
    __builtin_prefetch(place + i * stride + tile_columns - 1);
  }
}

// A panel of B stays in the first cache while the rows of A, from the second, pass by.
void multiply(const TileJob& job) {
  const std::int64_t a_panel = job.a_packed ? job.a_stride : job.a_stride * tile_rows;
  for (std::int64_t column = 0; column < job.n; column += tile_columns) {
    const float* b = job.b + column / tile_columns * job.b_stride;
    const std::int64_t columns = job.n - column < tile_columns ? job.n - column : tile_columns;
    for (std::int64_t row = 0; row < job.m; row += tile_rows) {
      const float* a = job.a + row / tile_rows * a_panel;
      const std::int64_t rows = job.m - row < tile_rows ? job.m - row : tile_rows;
      if (columns < tile_columns) {
        edge_tile(job, a, b, row, column, rows, columns);
        continue;
      }
      float* c = job.c + row * job.c_stride + column;
      const std::int64_t next = job.m - row - tile_rows;
      if (next > 0 && job.begin == Begin::existing) {
        prefetch_rows(c + tile_rows * job.c_stride, job.c_stride, next < tile_rows ? next : tile_rows);
      }
      const float* bias = job.begin == Begin::bias ? job.bias + column : nullptr;
      tile_of_rows<tile_rows>(rows, job.a_packed, a, job.a_stride, b, job.k, job.begin, bias, c, job.c_stride);
      if (job.end != End::nothing) {
        finish(job.end, rows, c, job.c_stride, job.second + row * job.second_stride + column, job.second_stride);
      }
    }
  }
}

// One piece of a row, `width` long. A store of whole vectors may run over the piece, into what the next row fills and
// into the gap behind the panel at last; a load may not run over the row.
template <int width>
inline void pack_piece(const float* from, std::int64_t rest, float* to) {
  constexpr int whole = (width + lanes - 1) / lanes * lanes;
  if (rest >= whole) {
#pragma GCC unroll 4
    for (int j = 0; j < whole; j += lanes) store(to + j, load(from + j));
  } else if (rest >= width) {
    __builtin_memcpy(to, from, sizeof(float) * width);
  } else {
    for (std::int64_t j = 0; j < width; ++j) to[j] = j < rest ? from[j] : 0.0f;
  }
}

// Panels of `width` from a matrix stored (length, count). A few at a time: they take whole cache lines of each row, and
// do not write to more streams than the first cache has ways.
template <int width, int together>
inline void pack_stored_by_length(const PackJob& job) {
  for (std::int64_t begin = 0; begin < job.count; begin += width * together) {
    const float* from = job.from + begin;
    float* to = job.to + begin / width * job.panel_stride;
    const std::int64_t rest = job.count - begin;
    for (std::int64_t l = 0; l < job.length; ++l) {
      if (rest >= width * together + lanes) {
#pragma GCC unroll 8
        for (int p = 0; p < together; ++p) pack_piece<width>(from + p * width, lanes * 2, to + p * job.panel_stride);
      } else {
        for (int p = 0; p * width < rest && p < together; ++p) {
          pack_piece<width>(from + p * width, rest - p * width, to + p * job.panel_stride);
        }
      }
      from += job.stride;
      to += width;
    }
  }
}

void pack_columns(const PackJob& job) {
  pack_stored_by_length<tile_columns, 4>(job);
}
void pack_rows_transposed(const PackJob& job) {
  pack_stored_by_length<tile_rows, 8>(job);
}

// A square of lanes × lanes transposed by exchanging ever larger blocks across the diagonal.
inline void transpose(Vector (&v)[lanes]) {
#pragma GCC unroll 4
  for (int block = 1; block < lanes; block *= 2) {
    Lanes upper, lower;
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

void pack_columns_transposed(const PackJob& job) {
  for (std::int64_t begin = 0; begin < job.count; begin += tile_columns) {
    float* panel = job.to + begin / tile_columns * job.panel_stride;
    for (int half = 0; half < tile_columns; half += lanes) {
      const std::int64_t rows = job.count - begin - half;
      const float* from = job.from + (begin + half) * job.stride;
      std::int64_t l = 0;
      for (; rows >= lanes && l + lanes <= job.length; l += lanes) {
        Vector square[lanes];
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) square[i] = load(from + i * job.stride + l);
        transpose(square);
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) store(panel + (l + i) * tile_columns + half, square[i]);
      }
      for (; l < job.length; ++l) {
        for (int i = 0; i < lanes; ++i) panel[l * tile_columns + half + i] = i < rows ? from[i * job.stride + l] : 0.0f;
      }
    }
  }
}

void add_column_sums(const float* from, std::int64_t stride, std::int64_t length, std::int64_t count, float* sums) {
  for (std::int64_t l = 0; l < length; ++l) {
    const float* row = from + l * stride;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < count; ++j) sums[j] += row[j];
  }
}

}  // namespace

const TileKernels& tile_kernels() {
#define BERT_HPC_TEXT_OF(name) #name
#define BERT_HPC_TEXT(name) BERT_HPC_TEXT_OF(name)
  static constexpr TileKernels kernels = {
      BERT_HPC_TEXT(BERT_HPC_ISA), tile_rows,      tile_columns, multiply, pack_columns, pack_columns_transposed,
      pack_rows_transposed,        add_column_sums};
  return kernels;
}

}  // namespace bert_hpc::ops::cpu::BERT_HPC_ISA
