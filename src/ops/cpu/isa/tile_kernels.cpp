// The native products' inner loops, in GCC's vector extensions. CMake compiles this file once per instruction set, with
// BERT_HPC_ISA naming the namespace, and everything in it has internal linkage but the table: a function shared with
// other files could be merged with a copy that the processor cannot run.
//
// A tile of C of `rows` × two vectors stays in registers while one vector pair of B and `rows` broadcast elements of A
// are multiplied per term (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008): enough
// independent multiply-adds to hide their latency, and fewer loads than multiply-adds.
#include "../tile_kernels.hpp"

#include "bert_hpc/core/float16.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

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

typedef std::uint16_t UnalignedShorts __attribute__((vector_size(lanes * 2), aligned(2), may_alias));
typedef unsigned Bits __attribute__((vector_size(lanes * 4)));

// How elements of each Source are read (`one`, `vector`) and, where they are stored so, written.
template <Source>
struct Reader;

template <>
struct Reader<Source::fp32> {
  using Element = float;
  static float one(const float* from) { return *from; }
  static Vector vector(const float* from) { return load(from); }
};

template <>
struct Reader<Source::bf16> {
  using Element = std::uint16_t;
  static float one(const std::uint16_t* from) { return core::float_of_bf16(*from); }
  static std::uint16_t rounded(float x) { return core::bf16_of_float(x); }
  static Vector vector(const std::uint16_t* from) {
    const UnalignedShorts bits = *reinterpret_cast<const UnalignedShorts*>(from);
    return reinterpret_cast<Vector>(__builtin_convertvector(bits, Bits) << 16);
  }
};

template <>
struct Reader<Source::fp16> {
  using Element = std::uint16_t;
  static float one(const std::uint16_t* from) { return core::float_of_fp16(*from); }
  static std::uint16_t rounded(float x) { return core::fp16_of_float(x); }
  static Vector vector(const std::uint16_t* from) {
#if defined(__AVX512F__)
    return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__F16C__)
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
    Vector result;
    for (int l = 0; l < lanes; ++l) result[l] = one(from + l);
    return result;
#endif
  }
};

template <>
struct Reader<Source::fp32_as_bf16> {
  using Element = float;
  static float one(const float* from) { return core::float_of_bf16(core::bf16_of_float(*from)); }
  static Vector vector(const float* from) {
    const Bits bits = reinterpret_cast<Bits>(load(from));
    const Bits rounded = bits + 0x7FFFu + ((bits >> 16) & 1u), quiet = bits | 0x400000u;
    const Bits chosen = (bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded;
    return reinterpret_cast<Vector>(chosen & 0xFFFF0000u);
  }
};

template <>
struct Reader<Source::fp32_as_fp16> {
  using Element = float;
  static float one(const float* from) { return core::float_of_fp16(core::fp16_of_float(*from)); }
  static Vector vector(const float* from) {
#if defined(__AVX512F__)
    return _mm512_maskz_cvtph_ps(0xFFFF, _mm512_maskz_cvtps_ph(0xFFFF, load(from), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    return _mm256_cvtph_ps(_mm256_cvtps_ph(load(from), _MM_FROUND_TO_NEAREST_INT));
#else
    Vector result;
    for (int l = 0; l < lanes; ++l) result[l] = one(from + l);
    return result;
#endif
  }
};

template <Source source>
using ElementOf = typename Reader<source>::Element;

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
template <Source source, int width>
inline void pack_piece(const ElementOf<source>* from, std::int64_t rest, float* to) {
  constexpr int whole = (width + lanes - 1) / lanes * lanes;
  if (rest >= whole) {
#pragma GCC unroll 4
    for (int j = 0; j < whole; j += lanes) store(to + j, Reader<source>::vector(from + j));
  } else if (source == Source::fp32 && rest >= width) {
    __builtin_memcpy(to, from, sizeof(float) * width);
  } else {
    for (std::int64_t j = 0; j < width; ++j) to[j] = j < rest ? Reader<source>::one(from + j) : 0.0f;
  }
}

// Panels of `width` from a matrix stored (length, count). A few at a time: they take whole cache lines of each row, and
// do not write to more streams than the first cache has ways.
template <Source source, int width, int together>
inline void pack_stored_by_length(const PackJob& job) {
  for (std::int64_t begin = 0; begin < job.count; begin += width * together) {
    const ElementOf<source>* from = static_cast<const ElementOf<source>*>(job.from) + begin;
    float* to = job.to + begin / width * job.panel_stride;
    const std::int64_t rest = job.count - begin;
    for (std::int64_t l = 0; l < job.length; ++l) {
      if (rest >= width * together + lanes) {
#pragma GCC unroll 8
        for (int p = 0; p < together; ++p) {
          pack_piece<source, width>(from + p * width, lanes * 2, to + p * job.panel_stride);
        }
      } else {
        for (int p = 0; p * width < rest && p < together; ++p) {
          pack_piece<source, width>(from + p * width, rest - p * width, to + p * job.panel_stride);
        }
      }
      from += job.stride;
      to += width;
    }
  }
}

template <Source source>
void pack_columns(const PackJob& job) {
  pack_stored_by_length<source, tile_columns, 4>(job);
}
template <Source source>
void pack_rows_transposed(const PackJob& job) {
  pack_stored_by_length<source, tile_rows, 8>(job);
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

template <Source source>
void pack_columns_transposed(const PackJob& job) {
  for (std::int64_t begin = 0; begin < job.count; begin += tile_columns) {
    float* panel = job.to + begin / tile_columns * job.panel_stride;
    for (int half = 0; half < tile_columns; half += lanes) {
      const std::int64_t rows = job.count - begin - half;
      const ElementOf<source>* from = static_cast<const ElementOf<source>*>(job.from) + (begin + half) * job.stride;
      std::int64_t l = 0;
      for (; rows >= lanes && l + lanes <= job.length; l += lanes) {
        Vector square[lanes];
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) square[i] = Reader<source>::vector(from + i * job.stride + l);
        transpose(square);
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) store(panel + (l + i) * tile_columns + half, square[i]);
      }
      for (; l < job.length; ++l) {
        for (int i = 0; i < lanes; ++i) {
          panel[l * tile_columns + half + i] = i < rows ? Reader<source>::one(from + i * job.stride + l) : 0.0f;
        }
      }
    }
  }
}

template <Source source>
void widen_rows(const PackJob& job) {
  for (std::int64_t i = 0; i < job.count; ++i) {
    const ElementOf<source>* from = static_cast<const ElementOf<source>*>(job.from) + i * job.stride;
    float* to = job.to + i * job.panel_stride;
    std::int64_t l = 0;
    for (; l + lanes <= job.length; l += lanes) store(to + l, Reader<source>::vector(from + l));
    for (; l < job.length; ++l) to[l] = Reader<source>::one(from + l);
  }
}

// Of a rounding source too the sums are of the numbers as they are stored.
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

// One row of a block, `end` known to the compiler. What gelu is taken of is what is stored.
template <Source source, End end>
inline void store_row(std::int64_t columns, const float* __restrict from, std::uint16_t* __restrict to,
                      std::uint16_t* __restrict second) {
  using Stored = Reader<source>;
#pragma GCC ivdep
  for (std::int64_t j = 0; j < columns; ++j) {
    float value = from[j];
    if constexpr (end == End::gelu_slope) value *= gelu_derivative(Stored::one(second + j));
    to[j] = Stored::rounded(value);
  }
  if constexpr (end == End::gelu) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < columns; ++j) second[j] = Stored::rounded(gelu(Stored::one(to + j)));
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

template <Source source>
constexpr SourceKernels kernels_of() {
  SourceKernels kernels{pack_columns<source>,
                        pack_columns_transposed<source>,
                        pack_rows_transposed<source>,
                        widen_rows<source>,
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

const TileKernels& tile_kernels() {
#define BERT_HPC_TEXT_OF(name) #name
#define BERT_HPC_TEXT(name) BERT_HPC_TEXT_OF(name)
  static constexpr TileKernels kernels = {
      BERT_HPC_TEXT(BERT_HPC_ISA),
      tile_rows,
      tile_columns,
      multiply,
      {kernels_of<Source::fp32>(), kernels_of<Source::bf16>(), kernels_of<Source::fp16>(),
       kernels_of<Source::fp32_as_bf16>(), kernels_of<Source::fp32_as_fp16>()}};
  return kernels;
}

}  // namespace bert_hpc::ops::cpu::BERT_HPC_ISA
