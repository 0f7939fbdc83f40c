// 8-bit operands for FP8 gemms. Tensor cores need the inner dimension of both operands contiguous, so operands in the
// other order are copied and transposed. A thread transposes 16 rows of an 8-wide pack of columns in its registers,
// where one instruction rounds the numbers of two rows, which are neighbours in the copy. A warp has 64 rows and 64
// columns: it reads 128 contiguous bytes of each of four rows at a time and writes 64 of each of eight columns.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/fp8_rounding.hpp"
#include "fp8_note.hpp"
#include "kernel.hpp"
#include "kernel_blocks.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Float8;
using core::Tensor;

constexpr int word_bytes = 4, chunk_bytes = 16;
constexpr int group_rows = chunk_bytes;         // that a thread transposes
constexpr int tile_packs = 8, tile_groups = 4;  // of a warp
constexpr int tile_rows = tile_groups * group_rows;

/// The bytes of two words as `selector` says: each of its four digits is the number of a byte, those of b from 4 on.
KOKKOS_INLINE_FUNCTION std::uint32_t bytes_of(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(a, b, selector);
#else
  const std::uint64_t both = a | std::uint64_t{b} << 32;
  std::uint32_t word = 0;
  for (int i = 0; i < word_bytes; ++i) {
    word |= static_cast<std::uint32_t>(both >> (8 * (selector >> (4 * i) & 7u)) & 0xFFu) << (8 * i);
  }
  return word;
#endif
}

/// Packs eight numbers into two words.
template <Float8 format>
KOKKOS_INLINE_FUNCTION void pack_bytes(const float (&value)[packs::width], float s, std::uint32_t (&words)[2]) {
  for (int i = 0; i < 2; ++i) {
    const float* const x = value + word_bytes * i;
    words[i] = core::float8_pair<format>(x[0] * s, x[1] * s) | core::float8_pair<format>(x[2] * s, x[3] * s) << 16;
  }
}

/// Stores the packed numbers to to[0 … count).
KOKKOS_INLINE_FUNCTION void store(const std::uint32_t (&words)[2], int count, std::uint8_t* to) {
  if (count == packs::width && reinterpret_cast<std::uintptr_t>(to) % sizeof words == 0) {
    *reinterpret_cast<std::uint64_t*>(to) = words[0] | std::uint64_t{words[1]} << 32;
    return;
  }
  for (int j = 0; j < packs::width; ++j) {
    if (j < count) to[j] = static_cast<std::uint8_t>(words[j / word_bytes] >> (8 * (j % word_bytes)));
  }
}

/// Operands of a transposition (x and its 8-bit copies), and the coordinates of a thread in it.
template <class T>
struct Turning {
  Tensor<const T> x;
  Tensor<std::uint8_t> plain, turned;

  KOKKOS_INLINE_FUNCTION std::int64_t tiles_across() const {
    return (x.columns + packs::width * tile_packs - 1) / (packs::width * tile_packs);
  }
  std::int64_t tiles() const { return tiles_across() * kernel::divide_up(turned.columns, tile_rows); }
};

/// turned (columns, rows) = float8(x·s)ᵀ for the rows and columns of a warp's lane, and plain = float8(x·s) if it has
/// data. Rows of x past the end count as zeros. Returns the largest magnitude of these x.
template <Float8 format, class T>
KOKKOS_INLINE_FUNCTION std::uint32_t turn(const Turning<T>& at, float s, std::int64_t tile, int lane) {
  const std::int64_t row = tile / at.tiles_across() * tile_rows + lane / tile_packs * group_rows;
  const std::int64_t pack = tile % at.tiles_across() * tile_packs + lane % tile_packs, begin = pack * packs::width;
  if (row >= at.turned.columns || begin >= at.x.columns) return 0;
  const int count = packs::columns_of(pack, at.x.columns);
  packs::Chunk column[packs::width];
  std::uint32_t largest = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int r = 0; r < group_rows; r += 2) {
    float value[2][packs::width] = {};
    for (int i = 0; i < 2; ++i) {
      if (row + r + i < at.x.rows) packs::load(at.x.row(row + r + i) + begin, count, value[i]);
      const std::uint32_t found = largest_magnitude(value[i]);
      largest = found > largest ? found : largest;
    }
    std::uint32_t pair[packs::width];
    for (int j = 0; j < packs::width; ++j) {
      pair[j] = core::float8_pair<format>(value[0][j] * s, value[1][j] * s);
      std::uint32_t& word = column[j].words[r / word_bytes];
      word = r % word_bytes == 0 ? pair[j] : word | pair[j] << 16;
    }
    if (at.plain.data == nullptr) continue;
    for (int i = 0; i < 2; ++i) {
      if (row + r + i >= at.x.rows) continue;
      std::uint32_t words[2];
      for (int w = 0; w < 2; ++w) {
        const std::uint32_t* const p = pair + word_bytes * w;
        words[w] = bytes_of(p[0] | p[1] << 16, p[2] | p[3] << 16, i == 0 ? 0x6420u : 0x7531u);
      }
      store(words, count, at.plain.row(row + r + i) + begin);
    }
  }
  for (int j = 0; j < packs::width; ++j) {
    if (j < count) *reinterpret_cast<packs::Chunk*>(at.turned.row(begin + j) + row) = column[j];
  }
  return largest;
}

template <Float8 format, class T>
void round_turned_in(const Turning<T>& at, const Fp8Scale& scale, bool notes) {
  const float* const s = scale.scale;
  std::uint32_t* const noted = notes ? scale.largest : nullptr;
  constexpr const char* label = "bert_hpc::ops::fp8_round_turned";
  constexpr int lanes = tile_packs * tile_groups;
  static_assert(lanes == packs::warp_lanes);
#if BERT_HPC_WARPS
  // A tile for a row, whose packs are the lanes of a warp.
  kernel::for_packs_with_maximum(
      label, at.tiles(), lanes * packs::width, noted, KOKKOS_LAMBDA(std::int64_t tile, std::int64_t begin, int) {
        return turn<format>(at, *s, tile, static_cast<int>(begin) / packs::width);
      });
#else
  kernel::for_items(
      label, at.tiles(), KOKKOS_LAMBDA(std::int64_t tile) {
        std::uint32_t largest = 0;
        for (int lane = 0; lane < lanes; ++lane) {
          const std::uint32_t found = turn<format>(at, *s, tile, lane);
          largest = found > largest ? found : largest;
        }
        if (noted != nullptr) note(noted, largest);
      });
#endif
}

/// y = float8(x·s) for an 8-wide pack. Returns the largest magnitude of x in the pack.
template <Float8 format, class T>
KOKKOS_INLINE_FUNCTION std::uint32_t round_pack(const Tensor<const T>& x, float s, std::int64_t row, std::int64_t begin,
                                                int count, const Tensor<std::uint8_t>& y) {
  float value[packs::width];
  packs::load(x.row(row) + begin, count, value);  // zeros after the last column
  std::uint32_t words[2];
  pack_bytes<format>(value, s, words);
  store(words, count, y.row(row) + begin);
  return largest_magnitude(value);
}

// y = float8(x·s)
template <Float8 format, class T>
void round_in(Tensor<const T> x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y) {
  const float* const s = scale.scale;
  std::uint32_t* const noted = notes ? scale.largest : nullptr;
  constexpr const char* label = "bert_hpc::ops::fp8_round_to_bytes";
#if BERT_HPC_WARPS
  kernel::for_packs_with_maximum(
      label, x.rows, x.columns, noted, KOKKOS_LAMBDA(std::int64_t row, std::int64_t begin, int count) {
        return round_pack<format>(x, *s, row, begin, count, y);
      });
#else
  kernel::for_items(
      label, x.rows, KOKKOS_LAMBDA(std::int64_t row) {
        std::uint32_t largest = 0;
        for (std::int64_t pack = 0; pack < packs::count_of(x.columns); ++pack) {
          const int count = packs::columns_of(pack, x.columns);
          const std::uint32_t found = round_pack<format>(x, *s, row, pack * packs::width, count, y);
          largest = found > largest ? found : largest;
        }
        if (noted != nullptr) note(noted, largest);
      });
#endif
}

}  // namespace

void round_to_fp8(core::ConstMatrix x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y) {
  core::require(x.rows == y.rows && x.columns == y.columns, "FP8 rounding: shapes differ");
  core::with_type(x.type, [&]<class T>() {
    if (scale.format == Float8::e4m3) {
      round_in<Float8::e4m3, T>(x.as<T>(), scale, notes, y);
    } else {
      round_in<Float8::e5m2, T>(x.as<T>(), scale, notes, y);
    }
  });
}

void round_to_fp8_turned(core::ConstMatrix x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y,
                         Tensor<std::uint8_t> plain) {
  core::require(plain.data == nullptr || (plain.rows == x.rows && plain.columns == x.columns),
                "FP8 rounding: shapes differ");
  core::require(x.columns == y.rows && x.rows <= y.columns, "FP8 rounding: shapes are not those of a turned copy");
  core::require(y.columns % chunk_bytes == 0 && y.stride % chunk_bytes == 0 &&
                    reinterpret_cast<std::uintptr_t>(y.data) % chunk_bytes == 0,
                "FP8 rounding: a turned copy's rows are not made of 16 bytes");
  core::with_type(x.type, [&]<class T>() {
    if (scale.format == Float8::e4m3) {
      round_turned_in<Float8::e4m3>(Turning<T>{x.as<T>(), plain, y}, scale, notes);
    } else {
      round_turned_in<Float8::e5m2>(Turning<T>{x.as<T>(), plain, y}, scale, notes);
    }
  });
}

}  // namespace bert_hpc::ops
