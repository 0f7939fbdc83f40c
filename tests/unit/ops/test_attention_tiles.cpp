// The tensor cores' attention kernels (src/ops/cuda), run on the host by an emulator of a GPU's warp: the very source
// that nvcc compiles, for every head size and type, against a loop in double.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/emulated_attention.hpp"

using namespace bert_hpc;
using namespace bert_hpc::ops::cuda;
using test::AttentionCase;
using test::AttentionCheck;
using test::AttentionResults;
using test::DataType;
using test::EmulatedDevice;
using test::EmulatedWarp;

namespace {

AttentionResults emulate(EmulatedDevice& device, const AttentionCase& c,
                         BackwardKernel kernel = BackwardKernel::split) {
  return test::emulate<core::Bf16, core::Fp16>(device, c, kernel);
}

/// All that can compute a case.
std::vector<BackwardKernel> kernels_of(const AttentionCase& c) {
  std::vector<BackwardKernel> kernels{BackwardKernel::split};
  if (c.mask.before != ops::AttentionMask::unlimited) return kernels;
  const std::int64_t head_dim = c.extents.head_dim;
  if (head_dim <= 64 && c.extents.max_length <= FourWarps<64>::keys) kernels.push_back(BackwardKernel::four_warps);
  if (head_dim <= 64) kernels.push_back(BackwardKernel::eight_warps);
  if (head_dim == 64) kernels.push_back(BackwardKernel::eight_warps_small);
  return kernels;
}

/// Every backward kernel; each finds its tiles' ends elsewhere.
void check(const AttentionCase& c) {
  for (const BackwardKernel kernel : kernels_of(c)) test::check<core::Bf16, core::Fp16>(c, kernel);
}

DataType a_type() {
  return GENERATE(DataType::bf16, DataType::fp16);
}
std::int64_t a_head_size() {
  return GENERATE(32, 64, 128);
}
ops::AttentionMask a_mask() {
  return GENERATE(ops::AttentionMask::full(), ops::AttentionMask::causal(), ops::AttentionMask::window(24));
}

}  // namespace

TEST_CASE("tensor cores' attention of sequences of every length against double") {
  const DataType type = a_type();
  const std::int64_t head_dim = a_head_size();
  const float probability = GENERATE(0.0f, 0.1f);
  CAPTURE(core::name_of(type), head_dim, probability);
  const bool short_ones = GENERATE(false, true);  // of one tile of four warps
  const std::vector<int> lengths = short_ones ? std::vector<int>{1, 2, 63, 15, 64, 16, 127, 17, 65, 128, 31, 32, 33, 96}
                                              : std::vector<int>{129, 64, 200, 255, 17, 256, 33, 257, 288, 1};
  check(AttentionCase(type, test::every_position(lengths), lengths, 1, head_dim, probability));
}

TEST_CASE("tensor cores' attention of a long sequence against double") {
  const std::int64_t head_dim = a_head_size();
  const DataType type = head_dim == 64 ? DataType::fp16 : DataType::bf16;
  check(AttentionCase(type, test::every_position({512}), {512}, 1, head_dim, 0.1f));
}

TEST_CASE("tensor cores' attention of several heads, which may be some of a layer's") {
  const DataType type = a_type();
  const std::vector<int> lengths{40, 3, 70};
  check(AttentionCase(type, test::every_position(lengths), lengths, 3, 32, 0.3f, 5));
}

TEST_CASE("tensor cores' attention of padded sequences against double") {
  const DataType type = a_type();
  const std::int64_t head_dim = a_head_size();
  const float probability = GENERATE(0.0f, 0.1f);
  CAPTURE(core::name_of(type), head_dim, probability);
  // Real keys end within tiles of every kernel, and tiles of padding alone follow.
  const std::vector<int> lengths = GENERATE(std::vector<int>{1, 2, 31, 64, 100, 127, 128}, std::vector<int>{257, 90});
  AttentionCase c(type, test::every_position(lengths), lengths, 1, head_dim, probability);
  c.pad_from_the_middle();
  check(c);
  c.mask = a_mask();
  EmulatedDevice device;
  for (const BackwardKernel kernel : kernels_of(c)) {
    const AttentionResults r = emulate(device, c, kernel);
    std::int64_t not_zero = 0;
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      for (std::int64_t j = c.keys.offsets[b] + c.real_keys[b]; j < c.keys.offsets[b + 1]; ++j) {
        for (std::int64_t column = 0; column < 2 * c.hidden; ++column) not_zero += r.d_kv(j, column) == 0.0 ? 0 : 1;
      }
    }
    CAPTURE(static_cast<int>(kernel));
    CHECK(not_zero == 0);
  }
}

TEST_CASE("tensor cores' attention of selected query rows, some sequences without any") {
  const DataType type = a_type();
  const std::int64_t head_dim = a_head_size();
  const float probability = GENERATE(0.0f, 0.2f);
  // The last of 16, 32 and 64 keys is outside the causal mask for the first of their rows alone.
  const std::vector<std::vector<int>> positions{{0}, {}, {3, 8, 11}, {0, 69}, {14, 20}, {30, 40}, {62, 65}};
  check(AttentionCase(type, positions, {4, 9, 12, 70, 25, 45, 70}, 2, head_dim, probability));
}

TEST_CASE("tensor cores' attention of many selected query rows against double") {
  std::vector<std::vector<int>> positions(4);
  for (int p = 2; p < 260; p += 3) positions[0].push_back(p);
  for (int p = 90; p < 129; ++p) positions[1].push_back(p);
  for (int p = 0; p < 70; ++p) positions[2].push_back(p);
  const bool short_ones = GENERATE(false, true);
  if (short_ones) positions.erase(positions.begin());
  const std::vector<int> lengths = short_ones ? std::vector<int>{129, 180, 40} : std::vector<int>{260, 129, 180, 40};
  AttentionCase c(a_type(), positions, lengths, 1, a_head_size(), 0.1f);
  if (GENERATE(false, true)) c.pad_from_the_middle();
  check(c);
}

TEST_CASE("tensor cores' causal attention of a long sequence reads 0.6 of what the full one reads") {
  AttentionCase c(DataType::bf16, test::every_position({512}), {512}, 1, a_head_size(), 0.1f);
  for (const BackwardKernel kernel : kernels_of(c)) {
    EmulatedDevice full, causal;
    c.mask = ops::AttentionMask::full();
    emulate(full, c, kernel);
    c.mask = ops::AttentionMask::causal();
    emulate(causal, c, kernel);
    CAPTURE(c.extents.head_dim, static_cast<int>(kernel), full.wavefronts, causal.wavefronts);
    CHECK(static_cast<double>(causal.wavefronts) < 0.595 * static_cast<double>(full.wavefronts));
  }
}

TEST_CASE("tensor cores' attention in a window reads 0.4 of what the full one reads") {
  // 300 queries with 33 keys each, in tiles of 64 keys: at most 2 of 5 tiles of keys for one of queries.
  AttentionCase c(a_type(), test::every_position({300}), {300}, 1, GENERATE(32, 64, 128), 0.1f);
  EmulatedDevice full, window;
  emulate(full, c);
  c.mask = ops::AttentionMask::window(16);
  emulate(window, c);
  CAPTURE(c.extents.head_dim, full.wavefronts, window.wavefronts);
  CHECK(static_cast<double>(window.wavefronts) < 0.7 * static_cast<double>(full.wavefronts));
}

TEST_CASE("tensor cores' attention has the same bits in every run, row by row") {
  test::check_bits_of_rows<core::Bf16, core::Fp16>(a_type(), a_mask());
}

TEST_CASE("tensor cores' attention has the same bits from every backward kernel") {
  const DataType type = a_type();
  const std::int64_t head_dim = GENERATE(32, 64);
  const std::vector<int> lengths = GENERATE(std::vector<int>{140, 300, 40}, std::vector<int>{100, 128, 33});
  AttentionCase c(type, test::every_position(lengths), lengths, 1, head_dim, 0.1f);
  c.mask = a_mask();
  EmulatedDevice device;
  const AttentionResults split = emulate(device, c);
  for (const BackwardKernel kernel : kernels_of(c)) {
    CAPTURE(head_dim, static_cast<int>(kernel));
    const AttentionResults r = emulate(device, c, kernel);
    CHECK(r.d_q.same_bits(split.d_q));
    CHECK(r.d_kv.same_bits(split.d_kv));
  }
}

TEST_CASE("tensor cores' attention of scores whose probabilities beyond the keys overflow") {
  // exp(s − lse) of a key that is not there, s = 0, is infinite at lse = −128.
  AttentionCase c(DataType::bf16, test::every_position({70, 300}), {70, 300}, 1, 64, 0.1f);
  c.mask = a_mask();
  for (std::int64_t i = 0; i < 370; ++i) {
    for (std::int64_t j = 0; j < 64; ++j) {
      c.q.set(i, j, 4.0f);
      c.kv.set(i, j, -4.0f - 0.03125f * static_cast<float>((i + j) % 3));
    }
  }
  EmulatedDevice device;
  const AttentionResults split = emulate(device, c);
  for (const BackwardKernel kernel : kernels_of(c)) {
    const AttentionResults r = emulate(device, c, kernel);
    std::int64_t infinite = 0;
    for (std::int64_t i = 0; i < 370; ++i) {
      for (std::int64_t j = 0; j < 64; ++j) infinite += std::isfinite(r.d_q(i, j)) ? 0 : 1;
    }
    CAPTURE(static_cast<int>(kernel));
    CHECK(infinite == 0);
    CHECK(r.d_q.same_bits(split.d_q));
    CHECK(r.d_kv.same_bits(split.d_kv));
  }
}

TEST_CASE("tensor cores' attention keeps one bit a pair, equal to the definition's bits") {
  const std::vector<int> lengths{70, 3, 150};
  std::vector<std::vector<int>> positions{{0, 5, 69}, {}, {}};
  for (int position = 1; position < 150; position += 4) positions[2].push_back(position);  // rows of both halves
  const AttentionCase c(a_type(), positions, lengths, 2, a_head_size(), 0.3f, 1);
  EmulatedDevice device;
  AttentionResults r = emulate(device, c);
  const test::HostOperands operands;
  const std::int64_t tiles = r.kept_rows / c.extents.heads;
  const std::uint32_t threshold = ops::attention_dropout_threshold(c.dropout.probability);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < c.queries.view().count; ++i) {
    const auto sequence = static_cast<std::size_t>(c.queries.sequence[static_cast<std::size_t>(i)]);
    for (std::int64_t head = 0; head < c.extents.heads; ++head) {
      for (int key = 0; key < lengths[sequence]; ++key) {
        const auto row = static_cast<std::uint32_t>((c.extents.first_head + head) * (1 << 20) +
                                                    c.queries.position[static_cast<std::size_t>(i)]);
        const auto drawn = ops::dropout_bits(c.dropout, c.samples[sequence], row, ops::attention_dropout_block(key));
        const bool kept = (r.kept()(head * tiles + key / 64, i) >> ops::attention_kept_bit(key) & 1u) != 0;
        wrong += kept == ops::attention_dropout_keeps(drawn, ops::attention_dropout_byte(key), threshold) ? 0 : 1;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("comparison of four bytes at once is exact for every byte and threshold") {
  std::int64_t wrong = 0;
  for (std::uint32_t threshold = 0; threshold < 256; ++threshold) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      // Neighbours on both sides that borrow or carry if bytes influence each other.
      for (const std::uint32_t others : {0x00000000u, 0xFFFFFFFFu, 0x80808080u, 0x7F7F7F7Fu, threshold * 0x01010101u}) {
        for (int at = 0; at < 4; ++at) {
          const std::uint32_t word = (others & ~(0xFFu << (8 * at))) | byte << (8 * at);
          const std::uint32_t reached = reached_bytes<EmulatedWarp>(word, threshold)[0];
          for (int b = 0; b < 4; ++b) {
            wrong += (reached >> (8 * b + 7) & 1u) == ((word >> (8 * b) & 0xFFu) >= threshold ? 1u : 0u) ? 0 : 1;
          }
        }
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a lane's drawn bits are gathered and become masks in the order of the definition") {
  // One byte of 16 is kept, the rest of each byte is noise.
  for (int lane = 0; lane < 4; ++lane) {
    for (int n = 0; n < 8; ++n) {
      for (int i = 0; i < 2; ++i) {
        const int key = 8 * n + 2 * lane + i, byte = ops::attention_dropout_byte(key);
        EmulatedWarp::U32 reached[4] = {0x7F3A5C11u, 0x017F2B60u, 0x6677087Fu, 0x55007F7Eu};
        reached[byte / 4] = reached[byte / 4] | (0x80u << (8 * (byte % 4)));
        CAPTURE(lane, n, i);
        CHECK(ops::attention_dropout_block(key) == static_cast<std::uint32_t>(lane));
        CHECK(ops::attention_kept_bit(key) == n / 4 * 32 + 8 * lane + 4 * i + n % 4);
        EmulatedWarp::U32 drawn[1][2], pairs[1][8][2];
        drawn[0][0] = drawn[0][1] = gather_tops<EmulatedWarp>(reached);
        CHECK((drawn[0][0][0] & 0xF0F0F0F0u) == 1u << drawn_bit(n, i));
        for (auto& pair : pairs[0]) pair[0] = pair[1] = 0x3F803F80u;
        drop_pairs<EmulatedWarp>(drawn, pairs);
        EmulatedWarp::F32 x[1][8][4];
        for (auto& element : x[0]) element[0] = element[1] = element[2] = element[3] = 1.0f;
        drop_drawn<EmulatedWarp>(drawn, x);
        for (int other = 0; other < 8; ++other) {
          const std::uint32_t expected = other == n ? 0x3F80u << (16 * i) : 0u;
          CHECK(pairs[0][other][0][0] == expected);
          CHECK(pairs[0][other][1][0] == expected);
          for (int e = 0; e < 4; ++e) CHECK(x[0][other][e][0] == (other == n && e % 2 == i ? 1.0f : 0.0f));
        }
      }
    }
  }
}

TEST_CASE("tensor cores' attention survives large scores") {
  const BackwardKernel kernel = GENERATE(BackwardKernel::split, BackwardKernel::eight_warps);
  AttentionCase c(DataType::bf16, test::every_position({80}), {80}, 1, 32, 0.0f);
  for (std::int64_t i = 0; i < 80; ++i) {
    for (std::int64_t j = 0; j < 32; ++j) c.q.set(i, j, c.q(i, j) * 128.0f);
  }
  EmulatedDevice device;
  const AttentionResults r = emulate(device, c, kernel);
  for (std::int64_t i = 0; i < 80; ++i) {
    for (std::int64_t j = 0; j < 32; ++j) {
      // Within the values' range: scores up to 700 leave one or two keys for a query.
      CHECK(std::abs(r.out(i, j)) < 6.0f);
      CHECK(std::isfinite(r.d_q(i, j)));
      CHECK(std::isfinite(r.d_kv(i, j)));
    }
  }
  CHECK(AttentionCheck(c, r).wrong_lse <= 80 * 80);
}

TEST_CASE("shared memory of tensor cores' attention fits every GPU, and has no bank conflicts") {
  const std::int64_t head_dim = a_head_size();
  EmulatedDevice device;
  emulate(device, AttentionCase(DataType::bf16, test::every_position({130}), {130}, 1, head_dim, 0.1f));
  CHECK(device.wavefronts > 1000);
  CHECK(device.conflicts == 0);
  // Two blocks in the 100 KiB of the smallest multiprocessors since sm_80 (1 KiB of a block is CUDA's own) would be
  // best; one is a must.
  const auto most = [](auto d) {
    constexpr int D = decltype(d)::value;
    using T = core::Bf16;
    return std::max(
        {ForwardShape<T, D>::shared_bytes, BackwardShape<T, D>::key_bytes, BackwardShape<T, D>::query_bytes});
  };
  CHECK(most(std::integral_constant<int, 32>()) <= 49 * 1024);
  CHECK(most(std::integral_constant<int, 64>()) <= 49 * 1024);
  CHECK(most(std::integral_constant<int, 128>()) <= 99 * 1024);
}

TEST_CASE("the backward kernel of attention is the one that shared memory has room for") {
  using enum BackwardKernel;
  constexpr std::int64_t h100 = 227 * 1024, a100 = 163 * 1024, ada = 99 * 1024;  // bytes a block may have
  const auto backward_kernel = [](std::int64_t head_dim, std::int64_t max_length, std::int64_t most) {
    return ops::cuda::backward_kernel(DataType::bf16, head_dim, max_length, most);
  };
  CHECK(ops::cuda::backward_kernel(DataType::fp32, 64, 64, h100) == split);
  CHECK(backward_kernel(64, 64, ada) == four_warps);
  CHECK(backward_kernel(64, 128, ada) == four_warps);
  CHECK(backward_kernel(64, 129, h100) == eight_warps);
  CHECK(backward_kernel(64, 384, h100) == eight_warps);
  CHECK(backward_kernel(64, 512, h100) == eight_warps_small);
  CHECK(backward_kernel(64, 513, h100) == split);
  CHECK(backward_kernel(64, 256, a100) == eight_warps);
  CHECK(backward_kernel(64, 288, a100) == eight_warps_small);
  CHECK(backward_kernel(64, 384, a100) == split);
  CHECK(backward_kernel(64, 256, ada) == eight_warps_small);
  CHECK(backward_kernel(32, 512, h100) == eight_warps);
  CHECK(backward_kernel(32, 512, a100) == eight_warps);
  CHECK(backward_kernel(128, 64, h100) == split);
  // Two blocks of four warps share an H100's or A100's multiprocessor.
  CHECK(2 * (FourWarps<64>::shared_bytes(128) + 1024) <= 164 * 1024);
}

TEST_CASE("the GPU's attention kernels are chosen by type, head size and device") {
  for (const int head_dim : {32, 64, 128}) CHECK(tensor_cores_attend(head_dim, 80));
  for (const int head_dim : {1, 16, 48, 80, 96, 256}) CHECK_FALSE(tensor_cores_attend(head_dim, 90));
  CHECK_FALSE(tensor_cores_attend(64, 75));
  for (const auto type : {DataType::bf16, DataType::fp16}) {
    CHECK(attention_name(type, false, 64, 90) == "fused, tensor cores");
    CHECK(attention_name(type, false, 80, 90) == "fused, portable kernels for heads of 80");
  }
  CHECK(attention_name(DataType::fp32, false, 64, 90) == "fused, tensor cores, 3xTF32");
  CHECK(attention_name(DataType::fp32, true, 0, 90) == "fused, tensor cores, TF32");
  CHECK(attention_name(DataType::fp32, true, 80, 90) == "fused, portable kernels for heads of 80");
  CHECK(attention_name(DataType::fp32, true, 64, 75) == "fused, portable kernels for GPUs without TF32");
}
