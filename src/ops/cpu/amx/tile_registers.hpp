// The eight tile registers of Intel's AMX, each of 16 rows of 64 bytes, and their product of pairs of bf16 (Intel's
// Software Developer's Manual, TDPBF16PS): assembler, or with BERT_HPC_EMULATED_TILES the same in C++, so that tests
// run on any processor. Everything has internal linkage (see ../isa/tile_kernels.cpp).
#pragma once

#include <cstdint>

namespace bert_hpc::ops::cpu {
namespace {

constexpr std::int64_t register_rows = 16, register_words = 16;

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
  static void load(const float* from, std::int64_t stride) {
    for (std::int64_t r = 0; r < register_rows; ++r) {
      __builtin_memcpy(tiles_[t][r], from + r * stride, sizeof tiles_[t][r]);
    }
  }
  template <int t>
  static void store(float* to, std::int64_t stride) {
    for (std::int64_t r = 0; r < register_rows; ++r) {
      __builtin_memcpy(to + r * stride, tiles_[t][r], sizeof tiles_[t][r]);
    }
  }
  /// The first elements of all pairs are summed, and their second elements; then both sums are added, and the result
  /// to C. Denormal operands and results are zero.
  template <int c, int a, int b>
  static void multiply() {
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

 private:
  static constexpr std::uint32_t high = 0xFFFF0000u;

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
  static void load(const float* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride * 4), "i"(t) : "memory");
  }
  template <int t>
  static void store(float* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride * 4), "i"(t) : "memory");
  }
  template <int c, int a, int b>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

#endif

}  // namespace
}  // namespace bert_hpc::ops::cpu
