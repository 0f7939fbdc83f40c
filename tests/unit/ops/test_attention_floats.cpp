// The tensor cores' attention kernels for matrices of floats, run on the host by an emulator of a GPU's warp, for every
// head size and operand kind, against a loop in double. test_attention_tiles.cpp has what they share with 16-bit types.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <limits>

#include "support/emulated_attention.hpp"

using namespace bert_hpc;
using namespace bert_hpc::ops::cuda;
using test::AttentionCase;
using test::AttentionResults;
using test::DataType;
using test::EmulatedDevice;
using test::EmulatedWarp;
using test::OperandKind;

namespace {

AttentionResults emulate(EmulatedDevice& device, const AttentionCase& c) {
  return test::emulate<SplitFp32, Tf32>(device, c);
}
void check(const AttentionCase& c) {
  test::check<SplitFp32, Tf32>(c, BackwardKernel::split);
}

OperandKind a_kind() {
  return GENERATE(OperandKind(DataType::fp32), OperandKind(DataType::fp32, true));
}
std::int64_t a_head_size() {
  return GENERATE(32, 64, 128);
}
ops::AttentionMask a_mask() {
  return GENERATE(ops::AttentionMask::full(), ops::AttentionMask::causal(), ops::AttentionMask::window(24));
}

/// Largest error of a 16 × 8 by 8 × 8 product of random floats, relative to the sum of its terms' magnitudes.
template <class T>
double product_error() {
  double worst = 0.0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const test::Matrix left = test::Matrix::random(16, 8, seed), right = test::Matrix::random(8, 8, seed + 100);
    Operand<EmulatedWarp, T, 4> a;
    Operand<EmulatedWarp, T, 2> b;
    EmulatedWarp::F32 c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 0; i < 4; ++i) {
      a.set(i, EmulatedWarp::bits_of(
                   EmulatedWarp::F32::of([&](int lane) { return left(lane / 4 + i % 2 * 8, lane % 4 + i / 2 * 4); })));
    }
    for (int i = 0; i < 2; ++i) {
      b.set(i,
            EmulatedWarp::bits_of(EmulatedWarp::F32::of([&](int lane) { return right(lane % 4 + 4 * i, lane / 4); })));
    }
    multiply_add(a, b, c);
    for (int lane = 0; lane < 32; ++lane) {
      for (int e = 0; e < 4; ++e) {
        const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        double value = 0.0, size = 0.0;
        for (int k = 0; k < 8; ++k) {
          const double term = static_cast<double>(left(row, k)) * right(k, column);
          value += term;
          size += std::abs(term);
        }
        worst = std::max(worst, std::abs(c[e][lane] - value) / size);
      }
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("factors are rounded to 11 bits, and the first 11 bits of the rest suffice") {
  std::vector<float> numbers = test::normal_numbers(1000, 1, 1.0f);
  for (const float edge : {0.0f, 1.0f, 2.0f, 1.0f + 0x1p-10f, 1.0f + 0x1p-11f, 1.0f + 0x1p-23f, 2.0f - 0x1p-23f}) {
    for (const float scale : {1.0f, -1.0f, 0x1p-100f, 0x1p100f}) numbers.push_back(edge * scale);
  }
  std::int64_t wrong = 0;
  for (const float x : numbers) {
    Operand<EmulatedWarp, SplitFp32, 2> operand;
    operand.set(0, EmulatedWarp::bits_of(x));
    const float rounded = EmulatedWarp::number(operand.words[0])[0], rest = EmulatedWarp::number(operand.rest[0])[0];
    const auto taken = [](float number) {
      return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, number) & 0xFFFFE000u);
    };
    wrong += taken(rounded) == rounded && rounded + rest == x ? 0 : 1;
    wrong += std::abs(rest) <= (0x1p-11f + 0x1p-23f) * std::abs(x) ? 0 : 1;
    wrong += std::abs(rest - taken(rest)) <= 0x1.8p-23f * (1.0f + 0x1p-12f) * std::abs(x) ? 0 : 1;
  }
  CHECK(wrong == 0);
  for (const float x : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Operand<EmulatedWarp, Tf32, 2> operand;
    operand.set(0, EmulatedWarp::bits_of(x));
    CHECK_FALSE(std::isfinite(EmulatedWarp::number(operand.words[0])[0]));
  }
}

TEST_CASE("products of floats have the errors that attention_operands.hpp states") {
  const double split = product_error<SplitFp32>(), tf32 = product_error<Tf32>();
  CHECK(split <= 0x1.4p-21 + 3 * 0x1p-22);
  CHECK(tf32 <= 0x1p-10 + 0x1p-21 + 0x1p-22);
  CHECK(tf32 > 0x1p-14);  // the numbers do need more than 11 bits
}

TEST_CASE("attention of floats of every length against double") {
  const OperandKind kind = a_kind();
  const std::int64_t head_dim = a_head_size();
  const float probability = GENERATE(0.0f, 0.1f);
  CAPTURE(kind.name(), head_dim, probability);
  const std::vector<int> lengths =
      GENERATE(std::vector<int>{1, 2, 63, 15, 64, 16, 17, 65, 31, 32, 33}, std::vector<int>{128, 127, 129, 200});
  check(AttentionCase(kind, test::every_position(lengths), lengths, 1, head_dim, probability));
}

TEST_CASE("attention of floats of several heads, which may be some of a layer's") {
  const std::vector<int> lengths{40, 3, 70};
  check(AttentionCase(a_kind(), test::every_position(lengths), lengths, 3, a_head_size(), 0.3f, 5));
}

TEST_CASE("attention of floats of padded sequences against double") {
  const OperandKind kind = a_kind();
  const std::int64_t head_dim = a_head_size();
  CAPTURE(kind.name(), head_dim);
  const std::vector<int> lengths{1, 2, 31, 64, 100, 150};
  AttentionCase c(kind, test::every_position(lengths), lengths, 1, head_dim, 0.1f);
  c.pad_from_the_middle();
  check(c);
  c.mask = a_mask();
  EmulatedDevice device;
  const AttentionResults r = emulate(device, c);
  std::int64_t not_zero = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    for (std::int64_t j = c.keys.offsets[b] + c.real_keys[b]; j < c.keys.offsets[b + 1]; ++j) {
      for (std::int64_t column = 0; column < 2 * c.hidden; ++column) not_zero += r.d_kv(j, column) == 0.0f ? 0 : 1;
    }
  }
  CHECK(not_zero == 0);
}

TEST_CASE("attention of floats of selected query rows, some sequences without any") {
  const std::vector<std::vector<int>> positions{{0}, {}, {3, 8, 11}, {0, 69}, {14, 20}, {30, 40}, {62, 65}};
  check(AttentionCase(a_kind(), positions, {4, 9, 12, 70, 25, 45, 70}, 2, a_head_size(), 0.2f));
}

TEST_CASE("attention of floats of many selected query rows against double") {
  std::vector<std::vector<int>> positions(2);
  for (int p = 2; p < 200; p += 3) positions[0].push_back(p);
  for (int p = 90; p < 129; ++p) positions[1].push_back(p);
  check(AttentionCase(a_kind(), positions, {200, 129}, 1, a_head_size(), 0.1f));
}

TEST_CASE("attention of floats has the same bits in every run, row by row") {
  test::check_bits_of_rows<SplitFp32, Tf32>(a_kind(), a_mask());
}

TEST_CASE("attention of floats of scores whose probabilities beyond the keys overflow") {
  // exp(s − lse) of a key that is not there, s = 0, is infinite at lse = −128.
  AttentionCase c(a_kind(), test::every_position({70, 150}), {70, 150}, 1, 64, 0.1f);
  c.mask = a_mask();
  for (std::int64_t i = 0; i < 220; ++i) {
    for (std::int64_t j = 0; j < 64; ++j) {
      c.q.set(i, j, 4.0f);
      c.kv.set(i, j, -4.0f - 0.03125f * static_cast<float>((i + j) % 3));
    }
  }
  EmulatedDevice device;
  const AttentionResults r = emulate(device, c);
  std::int64_t infinite = 0;
  for (std::int64_t i = 0; i < 220; ++i) {
    for (std::int64_t j = 0; j < 64; ++j) {
      infinite += std::isfinite(r.out(i, j)) && std::isfinite(r.d_q(i, j)) && std::isfinite(r.d_kv(i, j)) ? 0 : 1;
    }
  }
  CHECK(infinite == 0);
}

TEST_CASE("tiles of floats fit the shared memory of every GPU") {
  // A block gets at least 99 KiB on every GPU since sm_80; three blocks, if registers suffice, in an H100's 227
  // KiB for heads up to 64.
  const auto most = []<int D>() {
    using T = SplitFp32;
    return std::max(
        {ForwardShape<T, D>::shared_bytes, BackwardShape<T, D>::key_bytes, BackwardShape<T, D>::query_bytes});
  };
  CHECK(most.template operator()<32>() <= 49 * 1024);
  CHECK(3 * (most.template operator()<64>() + 1024) <= 227 * 1024);
  CHECK(most.template operator()<128>() <= 99 * 1024);
}
