// Attention with every mask on matrices of every type: against a loop in double, what a mask separates, and what it
// saves.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <limits>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "support/attention_case.hpp"
#include "support/kernel_kinds.hpp"

using namespace bert_hpc;
using test::AttentionCase;
using test::AttentionResults;
using test::DataType;
using test::OperandKind;

namespace {

std::string a_kind() {
  if (core::is_gpu_build()) return GENERATE("portable", "fused", "fused-split");
  return GENERATE(from_range(test::kinds_under_test({"portable", "plain", "fused", "fused-baseline"})));
}
OperandKind operands() {
  return GENERATE(OperandKind(DataType::bf16), OperandKind(DataType::fp16), OperandKind(DataType::fp32),
                  OperandKind(DataType::fp32, true));
}

AttentionResults run_on(ops::Attention& attention, const AttentionCase& c) {
  AttentionResults r(c);
  attention.forward(c.inputs(), {r.out, r.lse, r.kept()});
  attention.backward(c.inputs(), {r.out, r.lse, r.kept()}, c.d_out, {r.d_q, r.d_k(), r.d_v()});
  core::wait_for_kernels();
  return r;
}

AttentionResults run(const std::string& kind, const AttentionCase& c) {
  const auto attention = ops::make_attention(kind, c.type, c.tf32);
  attention->reserve(c.extents.max_length, c.extents.head_dim);
  return run_on(*attention, c);
}

/// Rows [begin, end) of two matrices have the same elements.
bool same_rows(const test::StoredMatrix& a, const test::StoredMatrix& b, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      if (a(i, j) != b(i, j)) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("attention on matrices of every type against double") {
  const std::string kind = a_kind();
  const OperandKind of = operands();
  const std::int64_t head_dim = GENERATE(5, 32, 64, 128, 200);
  const float probability = GENERATE(0.0f, 0.1f);
  CAPTURE(kind, of.name(), head_dim, probability);
  if (core::is_gpu_build() && (head_dim == 5 || head_dim == 200)) return;  // tensor cores compute others alone
  const std::vector<int> lengths{1, 129, 2, 63, 15, 64, 16, 127, 17, 65, 128, 200, 512};
  const bool selected = GENERATE(false, true);
  if (selected && (kind == "portable" || head_dim != 64)) return;
  std::vector<std::vector<int>> positions = test::every_position(lengths);
  if (selected) {
    for (auto& rows : positions) rows.resize(rows.size() / 9);
  }
  // On a CPU the long ones take too long.
  const bool on_gpu = core::is_gpu_build();
  if (!on_gpu) positions.resize(8);
  AttentionCase c(of, positions, {lengths.begin(), lengths.begin() + (on_gpu ? 13 : 8)}, 2, head_dim, probability, 3);
  if (GENERATE(false, true)) c.pad_from_the_middle();
  for (const ops::AttentionMask mask : test::every_mask) {
    CAPTURE(mask.before, mask.after);
    c.mask = mask;
    const AttentionResults r = run(kind, c), again = run(kind, c);
    test::check_results(c, r);
    CHECK(r.out.same_bits(again.out));
    CHECK(r.d_q.same_bits(again.d_q));
    CHECK(r.d_kv.same_bits(again.d_kv));
  }
}

TEST_CASE("causal attention of many selected rows against double") {
  const std::string kind = a_kind();
  const OperandKind of = operands();
  std::vector<std::vector<int>> positions(4);
  for (int p = 2; p < 200; p += 3) positions[0].push_back(p);
  for (int p = 90; p < 129; ++p) positions[1].push_back(p);
  for (int p = 0; p < 70; ++p) positions[2].push_back(p);
  AttentionCase c(of, positions, {200, 129, 180, 40}, 2, GENERATE(64, 80), 0.1f);
  c.mask = ops::AttentionMask::causal();
  if (GENERATE(false, true)) c.pad_from_the_middle();
  CAPTURE(kind, of.name(), c.extents.head_dim);
  test::check_results(c, run(kind, c));
}

TEST_CASE("a token's causal attention does not depend on later tokens") {
  const std::string kind = a_kind();
  const std::int64_t first_later = GENERATE(1, 15, 60, 64, 129);
  AttentionCase c(GENERATE(DataType::fp32, DataType::bf16), test::every_position({130}), {130}, 2, 64, 0.1f);
  c.mask = ops::AttentionMask::causal();
  const AttentionResults before = run(kind, c);
  for (std::int64_t i = first_later; i < 130; ++i) {
    for (std::int64_t j = 0; j < c.hidden; ++j) {
      c.q.set(i, j, 1.0f - c.q(i, j));
      c.d_out.set(i, j, 1.0f - c.d_out(i, j));
      c.kv.set(i, j, 3.0f * c.kv(i, j));
      c.kv.set(i, c.hidden + j, 1.0f - c.kv(i, c.hidden + j));
    }
  }
  const AttentionResults after = run(kind, c);
  CAPTURE(kind, first_later);
  CHECK(same_rows(before.out, after.out, 0, first_later));
  CHECK(same_rows(before.d_q, after.d_q, 0, first_later));
  CHECK_FALSE(same_rows(before.out, after.out, first_later, first_later + 1));
  CHECK_FALSE(same_rows(before.d_kv, after.d_kv, 0, 1));
}

TEST_CASE("attention with every limit of a mask against double, on any selection of rows") {
  const std::string kind = a_kind();
  const OperandKind of = GENERATE(OperandKind(DataType::bf16), OperandKind(DataType::fp32));
  std::vector<std::vector<int>> positions = test::every_position({150, 20, 300});
  for (int p = 290; p > 3; p -= p % 7 == 0 ? 60 : 1) positions.back().push_back(p);
  std::sort(positions.back().begin(), positions.back().end());
  positions.back().erase(std::unique(positions.back().begin(), positions.back().end()), positions.back().end());
  positions.push_back({});
  for (int p = 5; p < 900; p += 1 + p % 40) positions.back().push_back(p);  // far apart: few share a block of keys
  AttentionCase c(of, positions, {150, 20, 300, 900}, 1, GENERATE(64, 80), GENERATE(0.0f, 0.1f));
  if (GENERATE(false, true)) c.pad_from_the_middle();
  for (const ops::AttentionMask mask :
       {ops::AttentionMask::window(0), ops::AttentionMask{70, 3}, ops::AttentionMask{1, 200},
        ops::AttentionMask{40, ops::AttentionMask::unlimited}}) {
    c.mask = mask;
    CAPTURE(kind, of.name(), c.extents.head_dim, mask.before, mask.after);
    test::check_results(c, run(kind, c));
  }
}

namespace {

/// Queries of a sequence that every kernel's blocks of keys divide: around the ends of blocks and of the sequence.
constexpr int longest = 1300;
std::vector<int> queries_of_longest() {
  std::vector<int> positions;
  for (int p = 0; p < longest; p += 1 + 131 * (p % 3 == 0 ? 1 : 0)) positions.push_back(p);
  for (const int edge : {383, 384, 767, 1023, 1024, 1279, longest - 2, longest - 1}) positions.push_back(edge);
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}
const std::vector<ops::AttentionMask> long_masks = {
    {}, ops::AttentionMask::causal(), ops::AttentionMask::window(300), {500, 3}, {2, 900}};

}  // namespace

TEST_CASE("attention of sequences of many blocks of keys against double") {
  const std::string kind = a_kind();
  const OperandKind of = GENERATE(OperandKind(DataType::bf16), OperandKind(DataType::fp32));
  AttentionCase c(of, {queries_of_longest(), {0, 1, 2}}, {longest, 3}, 1, GENERATE(64, 80), GENERATE(0.0f, 0.1f));
  if (GENERATE(false, true)) c.pad_from_the_middle();
  for (const ops::AttentionMask& mask : long_masks) {
    c.mask = mask;
    CAPTURE(kind, of.name(), c.extents.head_dim, mask.before, mask.after);
    test::check_results(c, run(kind, c));
  }
}

TEST_CASE("on CPUs the bits of a query's attention do not depend on the other queries") {
  if (core::is_gpu_build()) return;
  const std::string kind = a_kind();
  const OperandKind of = GENERATE(OperandKind(DataType::bf16), OperandKind(DataType::fp32));
  const float probability = GENERATE(0.0f, 0.1f);
  const std::vector<int> positions = queries_of_longest();
  AttentionCase all(of, {positions}, {longest}, 1, 64, probability);
  for (const ops::AttentionMask& mask : long_masks) {
    all.mask = mask;
    const AttentionResults expected = run(kind, all);
    for (std::size_t i = 0; i < positions.size(); i += 7) {
      AttentionCase one(of, {{positions[i]}}, {longest}, 1, 64, probability);
      one.mask = mask;
      for (std::int64_t j = 0; j < all.hidden; ++j) {
        one.q.set(0, j, all.q(static_cast<std::int64_t>(i), j));
        one.d_out.set(0, j, all.d_out(static_cast<std::int64_t>(i), j));
      }
      for (std::int64_t t = 0; t < longest; ++t) {
        for (std::int64_t j = 0; j < 2 * all.hidden; ++j) one.kv.set(t, j, all.kv(t, j));
      }
      const AttentionResults found = run(kind, one);
      std::int64_t different = 0;
      for (std::int64_t j = 0; j < all.hidden; ++j) {
        const auto row = static_cast<std::int64_t>(i);
        different += found.out(0, j) == expected.out(row, j) && found.d_q(0, j) == expected.d_q(row, j) ? 0 : 1;
      }
      CAPTURE(kind, of.name(), mask.before, mask.after, positions[i]);
      REQUIRE(different == 0);
    }
  }
}

TEST_CASE("attention does not read what an earlier call left in its memory") {
  // Tiles that a mask leaves out stay as they are: here not a number.
  const std::string kind = a_kind();
  const float probability = GENERATE(0.0f, 0.1f);
  CAPTURE(kind, probability);
  const std::vector<int> lengths{500, 61, 17, 223};
  AttentionCase c(DataType::fp32, test::every_position(lengths), lengths, 2, 64, probability), before = c;
  for (std::int64_t i = 0; i < before.q.rows(); ++i) {
    for (std::int64_t j = 0; j < before.q.columns(); ++j) before.q.set(i, j, std::numeric_limits<float>::quiet_NaN());
  }
  for (const ops::AttentionMask mask : test::every_mask) {
    CAPTURE(mask.before, mask.after);
    c.mask = mask;
    const auto attention = ops::make_attention(kind, c.type, c.tf32);
    attention->reserve(c.extents.max_length, c.extents.head_dim);
    run_on(*attention, before);
    const AttentionResults after = run_on(*attention, c), fresh = run(kind, c);
    CHECK(after.out.same_bits(fresh.out));
    CHECK(after.d_q.same_bits(fresh.d_q));
    CHECK(after.d_kv.same_bits(fresh.d_kv));
    test::check_results(c, after);
  }
}

TEST_CASE("attention in a window does not compute blocks of keys far from the queries") {
  const std::string kind = a_kind();
  if (kind == "plain") return;  // it computes all pairs
  std::vector<int> positions;
  for (int p = 300; p < 330; ++p) positions.push_back(p);
  AttentionCase c(operands(), {positions, {}}, {700, 3}, 2, GENERATE(64, 80), GENERATE(0.0f, 0.1f));
  c.mask = ops::AttentionMask::window(16);
  const AttentionResults before = run(kind, c);
  for (std::int64_t i = 0; i < 700; ++i) {
    if (i == 200) i = 450;  // beyond the tiles of every kernel
    for (std::int64_t j = 0; j < 2 * c.hidden; ++j) c.kv.set(i, j, std::numeric_limits<float>::quiet_NaN());
  }
  const AttentionResults after = run(kind, c);
  CAPTURE(kind);
  CHECK(before.out.same_bits(after.out));
  CHECK(before.d_q.same_bits(after.d_q));
  CHECK(before.d_kv.same_bits(after.d_kv));
}

TEST_CASE("a window that holds every sequence has the bits of the full mask") {
  const std::string kind = a_kind();
  AttentionCase c(operands(), test::every_position({50, 130, 7}), {50, 130, 7}, 2, 64, 0.1f);
  const AttentionResults full = run(kind, c);
  c.mask = ops::AttentionMask::window(129);
  const AttentionResults window = run(kind, c);
  CAPTURE(kind);
  CHECK(full.out.same_bits(window.out));
  CHECK(full.d_q.same_bits(window.d_q));
  CHECK(full.d_kv.same_bits(window.d_kv));
}

TEST_CASE("causal attention does not compute blocks of keys after the queries") {
  const std::string kind = a_kind();
  if (kind == "plain") return;                                 // it computes all pairs
  constexpr int length = 400, queries = 100, first_nan = 256;  // beyond the block of keys of every kernel
  AttentionCase c(operands(), {test::every_position({queries})[0], {}}, {length, 3}, 2, GENERATE(64, 80),
                  GENERATE(0.0f, 0.1f));
  c.mask = ops::AttentionMask::causal();
  const AttentionResults before = run(kind, c);
  for (std::int64_t i = first_nan; i < length; ++i) {
    for (std::int64_t j = 0; j < 2 * c.hidden; ++j) c.kv.set(i, j, std::numeric_limits<float>::quiet_NaN());
  }
  const AttentionResults after = run(kind, c);
  CAPTURE(kind);
  CHECK(before.out.same_bits(after.out));
  CHECK(before.d_q.same_bits(after.d_q));
  CHECK(before.d_kv.same_bits(after.d_kv));
  std::int64_t not_zero = 0;
  for (std::int64_t i = queries; i < length + 3; ++i) {
    for (std::int64_t j = 0; j < 2 * c.hidden; ++j) not_zero += after.d_kv(i, j) == 0.0f ? 0 : 1;
  }
  CHECK(not_zero == 0);
}

TEST_CASE("the stated work of attention follows the mask") {
  AttentionCase c(DataType::bf16, test::every_position({3, 5}), {3, 5}, 2, 16, 0.0f);
  ops::AttentionInputs in = c.inputs();
  in.queries.pairs = 9 + 25;
  const core::CallWork full = ops::attention_work(in, 5, 4, 4);
  CHECK(full.flops == 2.0 * 5 * 32 * (9 + 25));
  in.mask = ops::AttentionMask::causal();
  const core::CallWork causal = ops::attention_work(in, 5, 4, 4);
  CHECK(causal.flops == 2.0 * 5 * 32 * (1 + 2 + 3 + 1 + 2 + 3 + 4 + 5));
  CHECK(causal.bytes == full.bytes);
  AttentionCase one(DataType::bf16, test::every_position({5}), {5}, 2, 16, 0.0f);
  ops::AttentionInputs window = one.inputs();
  window.queries.pairs = 25;
  window.mask = ops::AttentionMask::window(1);
  CHECK(ops::attention_work(window, 5, 4, 4).flops == 2.0 * 5 * 32 * (2 + 3 + 3 + 3 + 2));
  window.mask = ops::AttentionMask::window(4);
  CHECK(ops::attention_work(window, 5, 4, 4).flops == 2.0 * 5 * 32 * 25);
}
