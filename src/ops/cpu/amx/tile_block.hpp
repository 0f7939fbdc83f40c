// A block of C of 32 × 32 elements in four tile registers. For 16 words along k, two tiles of A and two of B are loaded
// and multiplied, four products for four loads. B is packed in panels of 32 columns, two tiles side by side; A is read
// row by word. Everything has internal linkage (see ../isa/tile_kernels.cpp).
#pragma once

#include "tile_registers.hpp"

namespace bert_hpc::ops::cpu {
namespace {

constexpr std::int64_t block_rows = 2 * register_rows, block_columns = 2 * register_words;

/// Rows of 32-bit words, `stride` words from row to row.
struct Rows {
  const void* data = nullptr;
  std::int64_t stride = 0;

  const void* at(std::int64_t row, std::int64_t word) const {
    return static_cast<const char*>(data) + (row * stride + word) * word_bytes;
  }
};

/// Tiles 0 and 1 are C's upper rows, 2 and 3 its lower ones.
template <bool lower>
inline void begin_block(const Rows& first) {
  using T = TileRegisters;
  if (first.data == nullptr) {
    T::set_zero<0>();
    T::set_zero<1>();
    if constexpr (lower) {
      T::set_zero<2>();
      T::set_zero<3>();
    }
    return;
  }
  T::load<0>(first.at(0, 0), first.stride);
  T::load<1>(first.at(0, register_words), first.stride);
  if constexpr (lower) {
    T::load<2>(first.at(register_rows, 0), first.stride);
    T::load<3>(first.at(register_rows, register_words), first.stride);
  }
}

/// c = first (zeros without data) + the products of `deep` words, whole tiles. Without `lower` the upper rows alone.
template <TileTerms terms, bool lower>
inline void multiply_block(const Rows& a, const void* packed, std::int64_t deep, const Rows& first, void* c,
                           std::int64_t c_stride) {
  using T = TileRegisters;
  const Rows b{packed, block_columns};
  begin_block<lower>(first);
  for (std::int64_t l = 0; l < deep; l += register_words) {
    T::load<6>(b.at(l, 0), b.stride);
    T::load<4>(a.at(0, l), a.stride);
    T::multiply<terms, 0, 4, 6>();
    T::load<7>(b.at(l, register_words), b.stride);
    T::multiply<terms, 1, 4, 7>();
    if constexpr (lower) {
      T::load<5>(a.at(register_rows, l), a.stride);
      T::multiply<terms, 2, 5, 6>();
      T::multiply<terms, 3, 5, 7>();
    }
  }
  const auto at = [&](std::int64_t row, std::int64_t word) {
    return static_cast<char*>(c) + (row * c_stride + word) * word_bytes;
  };
  T::store<0>(at(0, 0), c_stride);
  T::store<1>(at(0, register_words), c_stride);
  if constexpr (lower) {
    T::store<2>(at(register_rows, 0), c_stride);
    T::store<3>(at(register_rows, register_words), c_stride);
  }
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
