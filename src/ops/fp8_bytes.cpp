// 8-bit operands for FP8 gemms. Tensor cores need the inner dimension of both operands contiguous, so operands in the
// other order are copied and transposed. A thread transposes 32 rows of an 8-wide pack of columns in its registers: it
// reads 16 contiguous bytes of each row, next to those of its neighbours, and writes 32 bytes of each column, one
// sector of memory.
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

constexpr int turned_rows = 32, word_bytes = 4, chunk_bytes = 16;

/// Packs eight numbers into two words.
template <Float8 format>
KOKKOS_INLINE_FUNCTION void pack_bytes(const float (&value)[packs::width], float s, std::uint32_t (&words)[2]) {
  words[0] = words[1] = 0;
  for (int j = 0; j < packs::width; ++j) {
    const std::uint32_t byte = core::float8_of_float<format>(value[j] * s);
    words[j / word_bytes] |= byte << (8 * (j % word_bytes));
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

/// y (columns, rows) = float8(x·s)ᵀ for 32 rows and 8 columns, and plain = float8(x·s) if plain has data. Rows of x
/// past the end count as zeros, up to the extent of y. Returns the largest magnitude of these x.
template <Float8 format, class T>
KOKKOS_INLINE_FUNCTION std::uint32_t turn(const Tensor<const T>& x, float s, std::int64_t first_row, std::int64_t begin,
                                          int count, const Tensor<std::uint8_t>& plain, const Tensor<std::uint8_t>& y) {
  constexpr int column_words = turned_rows / word_bytes;
  std::uint32_t largest = 0;
  std::uint32_t turned[packs::width][column_words] = {};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int r = 0; r < turned_rows; ++r) {
    const std::int64_t row = first_row + r;
    float value[packs::width] = {};
    if (row < x.rows) packs::load(x.row(row) + begin, count, value);
    const std::uint32_t found = largest_magnitude(value);
    largest = found > largest ? found : largest;
    std::uint32_t words[2];
    pack_bytes<format>(value, s, words);
    if (plain.data != nullptr && row < x.rows) store(words, count, plain.row(row) + begin);
    for (int j = 0; j < packs::width; ++j) {
      const std::uint32_t byte = words[j / word_bytes] >> (8 * (j % word_bytes)) & 0xFFu;
      turned[j][r / word_bytes] |= byte << (8 * (r % word_bytes));
    }
  }
  // Compile-time bounds keep the array in registers.
  for (int j = 0; j < packs::width; ++j) {
    for (int c = 0; c < turned_rows / chunk_bytes; ++c) {
      const std::int64_t at = first_row + c * chunk_bytes;
      if (j >= count || at >= y.columns) continue;
      packs::Chunk chunk;
      std::memcpy(&chunk, &turned[j][c * chunk_bytes / word_bytes], sizeof chunk);
      *reinterpret_cast<packs::Chunk*>(y.row(begin + j) + at) = chunk;
    }
  }
  return largest;
}

template <Float8 format, class T>
void round_turned_in(Tensor<const T> x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> plain,
                     Tensor<std::uint8_t> y) {
  const float* const s = scale.scale;
  std::uint32_t* const noted = notes ? scale.largest : nullptr;
  const std::int64_t blocks = kernel::divide_up(y.columns, turned_rows);
  constexpr const char* label = "bert_hpc::ops::fp8_round_turned";
#if BERT_HPC_WARPS
  kernel::for_packs_with_maximum(
      label, blocks, x.columns, noted, KOKKOS_LAMBDA(std::int64_t block, std::int64_t begin, int count) {
        return turn<format>(x, *s, block * turned_rows, begin, count, plain, y);
      });
#else
  const std::int64_t pack_count = packs::count_of(x.columns);
  kernel::for_items(
      label, blocks * pack_count, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t pack = i % pack_count;
        const std::uint32_t found = turn<format>(x, *s, i / pack_count * turned_rows, pack * packs::width,
                                                 packs::columns_of(pack, x.columns), plain, y);
        if (noted != nullptr) note(noted, found);
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
      round_turned_in<Float8::e4m3, T>(x.as<T>(), scale, notes, plain, y);
    } else {
      round_turned_in<Float8::e5m2, T>(x.as<T>(), scale, notes, plain, y);
    }
  });
}

}  // namespace bert_hpc::ops
