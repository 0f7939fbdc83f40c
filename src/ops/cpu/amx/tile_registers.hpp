// The eight tile registers of Intel's AMX, each of 16 rows of 64 bytes, and their products of pairs of bf16 and of four
// bytes (Intel's Software Developer's Manual, TDPBF16PS and TDPBUSD): assembler, or with BERT_HPC_EMULATED_TILES the
// same in C++, so that tests run on any processor. Everything has internal linkage (see ../isa/tile_kernels.cpp).
#pragma once

#include <cstdint>

namespace bert_hpc::ops::cpu {
namespace {

constexpr std::int64_t register_rows = 16, register_words = 16, word_bytes = 4;

/// What a word of 32 bits holds: two bf16, summed in fp32; or four bytes, those of A without sign and those of B with
/// it, summed in 32-bit integers.
enum class TileTerms { bf16, bytes };

#if defined(BERT_HPC_EMULATED_TILES)

class TileRegisters {
 public:
  static void configure() {
    for (int t = 0; t < 8; ++t) clear(t);
  }
  static void release() {}
  template <int t>
  static void set_zero() {
    clear(t);
  }
  template <int t>
  static void load(const void* from, std::int64_t stride) {
    for (std::int64_t r = 0; r < register_rows; ++r) {
      __builtin_memcpy(tiles_[t][r], static_cast<const char*>(from) + r * stride * word_bytes, sizeof tiles_[t][r]);
    }
  }
  template <int t>
  static void store(void* to, std::int64_t stride) {
    for (std::int64_t r = 0; r < register_rows; ++r) {
      __builtin_memcpy(static_cast<char*>(to) + r * stride * word_bytes, tiles_[t][r], sizeof tiles_[t][r]);
    }
  }
  template <TileTerms terms, int c, int a, int b>
  static void multiply() {
    if constexpr (terms == TileTerms::bytes) {
      multiply_bytes<c, a, b>();
    } else {
      multiply_pairs<c, a, b>();
    }
  }

 private:
  static constexpr std::uint32_t high = 0xFFFF0000u;

  template <int c, int a, int b>
  static void multiply_bytes() {
    for (std::int64_t m = 0; m < register_rows; ++m) {
      for (std::int64_t k = 0; k < register_words; ++k) {
        for (std::int64_t n = 0; n < register_words; ++n) {
          for (int shift = 0; shift < 32; shift += 8) {
            const std::uint32_t x = tiles_[a][m][k] >> shift & 255;
            const std::int32_t y = static_cast<std::int8_t>(tiles_[b][k][n] >> shift & 255);
            tiles_[c][m][n] += static_cast<std::uint32_t>(static_cast<std::int32_t>(x) * y);
          }
        }
      }
    }
  }
  /// The first elements of all pairs are summed, and their second elements; then both sums are added, and the result
  /// to C. Denormal operands and results are zero.
  template <int c, int a, int b>
  static void multiply_pairs() {
    for (std::int64_t m = 0; m < register_rows; ++m) {
      float first[register_words] = {}, second[register_words] = {};
      for (std::int64_t k = 0; k < register_words; ++k) {
        for (std::int64_t n = 0; n < register_words; ++n) {
          const std::uint32_t x = tiles_[a][m][k], y = tiles_[b][k][n];
          first[n] = flushed(__builtin_fmaf(element(x << 16), element(y << 16), first[n]));
          second[n] = flushed(__builtin_fmaf(element(x & high), element(y & high), second[n]));
        }
      }
      for (std::int64_t n = 0; n < register_words; ++n) {
        const float old = element(tiles_[c][m][n]), sum = flushed(old + flushed(first[n] + second[n]));
        __builtin_memcpy(&tiles_[c][m][n], &sum, sizeof sum);
      }
    }
  }
  static float flushed(float x) { return __builtin_fabsf(x) < 1.17549435e-38f ? 0.0f * x : x; }
  static float element(std::uint32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return flushed(x);
  }
  static void clear(int t) { __builtin_memset(tiles_[t], 0, sizeof tiles_[t]); }

  static inline thread_local std::uint32_t tiles_[8][register_rows][register_words];
};

#else

class TileRegisters {
 public:
  /// The calling thread calls it before its first use of the registers. Tiles become zero.
  static void configure() {
    struct alignas(64) Configuration {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(Configuration) == 64);
    static constexpr Configuration all{};
    asm volatile("ldtilecfg %0" : : "m"(all));
  }
  /// Lets the operating system stop saving them.
  static void release() { asm volatile("tilerelease" : : :); }
  template <int t>
  static void set_zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
  /// stride: words from row to row, also 0.
  template <int t>
  static void load(const void* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride * 4), "i"(t) : "memory");
  }
  template <int t>
  static void store(void* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride * 4), "i"(t) : "memory");
  }
  template <TileTerms terms, int c, int a, int b>
  static void multiply() {
    if constexpr (terms == TileTerms::bytes) {
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
    } else {
      asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
    }
  }
};

#endif

}  // namespace
}  // namespace bert_hpc::ops::cpu
