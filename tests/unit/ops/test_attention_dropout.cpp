// The decisions of attention's dropout: their share, their independence, and that every implementation makes the same.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <set>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/ops/attention_dropout.hpp"
#include "support/attention_case.hpp"
#include "support/kernel_kinds.hpp"

using namespace bert_hpc;
using core::DataType;

namespace {

core::Dropout a_site() {
  core::Dropout site;
  site.site = 37;
  ops::set_dropout_key(site, 1234, 56);
  return site;
}

std::string a_kind() {
  if (core::is_gpu_build()) return GENERATE("portable", "fused");
  return GENERATE(from_range(test::kinds_under_test({"portable", "plain", "fused", "fused-baseline"})));
}

}  // namespace

TEST_CASE("thresholds of attention's dropout are the nearest of 256, and its scale is the exact inverse") {
  CHECK(ops::attention_dropout_threshold(0.0f) == 0);
  CHECK(ops::attention_dropout_threshold(1.0f / 512) == 1);
  CHECK(ops::attention_dropout_threshold(0.1f) == 26);
  CHECK(ops::attention_dropout_threshold(0.5f) == 128);
  CHECK(ops::attention_dropout_threshold(0.998f) == 255);
  CHECK(ops::attention_dropout_threshold(0.9999f) == 255);
  CHECK(ops::attention_dropout_scale(0) == 1.0f);
  CHECK(ops::attention_dropout_scale(26) == 256.0f / 230.0f);
  CHECK(ops::attention_dropout_scale(128) == 2.0f);
  CHECK(ops::attention_dropout_scale(255) == 256.0f);
}

TEST_CASE("a block of attention's dropout decides 16 keys, each with a byte of its own") {
  std::set<std::pair<std::uint32_t, int>> used;
  for (std::int64_t key = 0; key < 512; ++key) {
    const std::uint32_t block = ops::attention_dropout_block(key);
    const int byte = ops::attention_dropout_byte(key);
    CHECK((byte >= 0 && byte < 16));
    CHECK(block / 4 == key / 64);
    used.emplace(block, byte);
  }
  CHECK(used.size() == 512);
}

TEST_CASE("a byte is dropped below the threshold and kept from it on") {
  for (const std::uint32_t threshold : {0u, 1u, 26u, 127u, 128u, 129u, 254u, 255u}) {
    for (int byte = 0; byte < 16; ++byte) {
      for (const std::uint32_t value : {0u, threshold == 0 ? 0u : threshold - 1, threshold, 127u, 128u, 255u}) {
        core::Philox4 bits{{~0u, 0u, ~0u, 0u}};
        bits.word[byte / 4] = (bits.word[byte / 4] & ~(0xFFu << (8 * (byte % 4)))) | value << (8 * (byte % 4));
        CHECK(ops::attention_dropout_keeps(bits, byte, threshold) == (value >= threshold));
      }
    }
  }
}

TEST_CASE("every byte of a block drops its share, independently of the others and of neighbouring blocks and rows") {
  const core::Dropout site = a_site();
  const std::uint32_t threshold = ops::attention_dropout_threshold(GENERATE(0.1f, 0.5f, 0.75f));
  constexpr int rows = 256, blocks = 256, decisions = 18;  // 16 bytes, byte 0 of the next block, byte 0 of the next row
  std::array<std::array<double, decisions>, decisions> both{};
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t block = 0; block < blocks; ++block) {
      const core::Philox4 bits = ops::dropout_bits(site, 7, row, block);
      std::array<bool, decisions> dropped{};
      for (int byte = 0; byte < 16; ++byte) {
        dropped[static_cast<std::size_t>(byte)] = !ops::attention_dropout_keeps(bits, byte, threshold);
      }
      dropped[16] = !ops::attention_dropout_keeps(ops::dropout_bits(site, 7, row, block + 1), 0, threshold);
      dropped[17] = !ops::attention_dropout_keeps(ops::dropout_bits(site, 7, row + 1, block), 0, threshold);
      for (std::size_t a = 0; a < decisions; ++a) {
        for (std::size_t b = 0; b < decisions; ++b) both[a][b] += dropped[a] && dropped[b] ? 1.0 : 0.0;
      }
    }
  }
  // Five standard deviations of a binomial share of 65,536 draws: of one decision, p, and of two at once, p².
  const double n = rows * blocks, p = threshold / 256.0;
  const auto bound = [n](double share) { return 5.0 * std::sqrt(share * (1.0 - share) / n); };
  for (std::size_t a = 0; a < decisions; ++a) {
    CAPTURE(threshold, a);
    CHECK(std::abs(both[a][a] / n - p) < bound(p));
    for (std::size_t b = 0; b < a; ++b) {
      CAPTURE(b);
      CHECK(std::abs(both[a][b] / n - p * p) < bound(p * p));
    }
  }
}

TEST_CASE("every implementation of attention makes the defined decisions") {
  // With queries of zeros all keys have the same weight. Values are the unit matrix, so out(i, j) is 0 if and only if
  // the pair of query i and key j is dropped.
  const std::string kind = a_kind();
  const DataType type = GENERATE(DataType::fp32, DataType::bf16);
  const float probability = GENERATE(0.1f, 0.6f);
  const std::vector<int> lengths{128, 70, 3, 64, 17};
  test::AttentionCase c(type, test::every_position(lengths), lengths, 2, 128, probability, 1);
  for (std::int64_t i = 0; i < c.q.view().rows; ++i) {
    const std::int64_t position = i - c.keys.offsets[static_cast<std::size_t>(c.keys.sequence[std::size_t(i)])];
    for (std::int64_t column = 0; column < c.hidden; ++column) {
      c.q.set(i, column, 0.0f);
      c.kv.set(i, c.hidden + column, column % 128 == position ? 1.0f : 0.0f);
    }
  }
  test::AttentionResults r(c);
  const auto attention = ops::make_attention(kind, type);
  attention->reserve(c.extents.max_length, c.extents.head_dim);
  attention->forward(c.inputs(), {r.out, r.lse, r.kept()});
  core::wait_for_kernels();

  const std::uint32_t threshold = ops::attention_dropout_threshold(probability);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < c.q.view().rows; ++i) {
    const auto sequence = static_cast<std::size_t>(c.keys.sequence[static_cast<std::size_t>(i)]);
    const std::int64_t position = i - c.keys.offsets[sequence];
    for (std::int64_t head = 0; head < 2; ++head) {
      const auto row = static_cast<std::uint32_t>((c.extents.first_head + head) * (1 << 20) + position);
      for (std::int64_t key = 0; key < lengths[sequence]; ++key) {
        const auto bits = ops::dropout_bits(c.dropout, c.samples[sequence], row, ops::attention_dropout_block(key));
        const bool keeps = ops::attention_dropout_keeps(bits, ops::attention_dropout_byte(key), threshold);
        wrong += (r.out(i, head * 128 + key) != 0.0f) == keeps ? 0 : 1;
      }
    }
  }
  CAPTURE(kind, core::name_of(type), probability);
  CHECK(wrong == 0);
}
