// Products of tensor cores' fragments on the host, laid out as in the PTX ISA.
#include "support/emulated_warp.hpp"

namespace bert_hpc::test {

namespace {

using F32 = Lanes<float>;
using U32 = Lanes<std::uint32_t>;

constexpr std::uint32_t tf32_bits = 0xFFFFE000u;

template <class T>
void multiply_add(const U32 (&a)[4], const U32& b0, const U32& b1, F32 (&c)[4]) {
  float left[16][16], right[16][8], sums[16][8];
  for (int i = 0; i < lanes; ++i) {
    const int group = i / 4, in_group = i % 4;
    for (int e = 0; e < 8; ++e) {  // a0 … a7 of a lane
      const int row = e % 4 < 2 ? group : group + 8, column = in_group * 2 + e % 2 + (e < 4 ? 0 : 8);
      left[row][column] = half_number<T>(a[e / 2][i] >> (16 * (e % 2)));
    }
    for (int e = 0; e < 4; ++e) {  // b0 … b3
      right[in_group * 2 + e % 2 + (e < 2 ? 0 : 8)][group] = half_number<T>((e < 2 ? b0 : b1)[i] >> (16 * (e % 2)));
    }
  }
  for (int row = 0; row < 16; ++row) {
    float sum[8] = {};
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) sum[column] += left[row][k] * right[k][column];
    }
    for (int column = 0; column < 8; ++column) sums[row][column] = sum[column];
  }
  for (int i = 0; i < lanes; ++i) {
    for (int e = 0; e < 4; ++e) c[e][i] += sums[i / 4 + (e < 2 ? 0 : 8)][i % 4 * 2 + e % 2];
  }
}

}  // namespace

void multiply_add_tile(core::DataType type, const U32 (&a)[4], const U32& b0, const U32& b1, F32 (&c)[4]) {
  type == core::DataType::bf16 ? multiply_add<core::Bf16>(a, b0, b1, c) : multiply_add<core::Fp16>(a, b0, b1, c);
}

/// Truncates operands and sums as GPUs do, so errors are at least theirs.
void multiply_add_tile_tf32(const U32 (&a)[4], const U32 (&b)[2], F32 (&c)[4]) {
  const auto taken = [](std::uint32_t bits) { return double{__builtin_bit_cast(float, bits& tf32_bits)}; };
  double left[16][8], right[8][8];
  for (int i = 0; i < lanes; ++i) {
    for (int e = 0; e < 4; ++e) left[i / 4 + e % 2 * 8][i % 4 + e / 2 * 4] = taken(a[e][i]);
    for (int e = 0; e < 2; ++e) right[i % 4 + e * 4][i / 4] = taken(b[e][i]);
  }
  for (int i = 0; i < lanes; ++i) {
    for (int e = 0; e < 4; ++e) {
      const int row = i / 4 + e / 2 * 8, column = i % 4 * 2 + e % 2;
      double sum = double{c[e][i]};
      for (int k = 0; k < 8; ++k) sum += left[row][k] * right[k][column];
      constexpr std::uint64_t below_float = (1ull << 29) - 1;
      c[e][i] = static_cast<float>(__builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, sum) & ~below_float));
    }
  }
}

}  // namespace bert_hpc::test
