#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "bert_hpc/core/device_memory.hpp"
#include "support/attention_case.hpp"
#include "support/emulated_attention.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using core::DataType;

namespace {

std::vector<std::string> kinds() {
  return core::is_gpu_build() ? std::vector<std::string>{"portable", "fused"}
                              : std::vector<std::string>{"portable", "plain", "fused", "fused-baseline"};
}

/// Runs both passes, with the sums of gradients by distance.
test::AttentionResults run(const std::string& kind, const test::AttentionCase& c, test::Matrix& d_bias) {
  test::AttentionResults r(c);
  const auto attention = ops::make_attention(kind, c.type, c.tf32);
  attention->reserve(c.extents.max_length, c.extents.head_dim);
  const ops::AttentionResults results{r.out.view(), r.lse.tensor(), r.kept()};
  attention->forward(c.inputs(), results);
  attention->backward(c.inputs(), results, c.d_out, {r.d_q.view(), r.d_k(), r.d_v(), d_bias.tensor()});
  return r;
}

/// A bias of up to 2 with 12 buckets, three of them for one distance each on both sides.
test::BiasValues some_bias(std::int64_t heads) {
  return test::BiasValues(heads, 12, 20, 24);
}

}  // namespace

TEST_CASE("T5's buckets are those of Transformers") {
  // From MPNetEncoder.relative_position_bucket of Transformers 5.0 for distances from -130 to 130: the first distance
  // of each bucket on the side of later keys, and the buckets there. The other side has 16 fewer.
  const std::vector<std::int32_t> buckets = ops::t5_buckets(32, 128, 130);
  const std::vector<std::pair<int, int>> first_of = {{1, 17},  {2, 18},  {3, 19},  {4, 20},  {5, 21},
                                                     {6, 22},  {7, 23},  {8, 24},  {12, 25}, {16, 26},
                                                     {23, 27}, {32, 28}, {46, 29}, {64, 30}, {91, 31}};
  CHECK(buckets.size() == 261);
  CHECK(buckets[130] == 0);
  for (std::size_t i = 0; i < first_of.size(); ++i) {
    const int end = i + 1 < first_of.size() ? first_of[i + 1].first : 131;
    for (int distance = first_of[i].first; distance < end; ++distance) {
      INFO("distance " << distance);
      CHECK(buckets[static_cast<std::size_t>(130 + distance)] == first_of[i].second);
      CHECK(buckets[static_cast<std::size_t>(130 - distance)] == first_of[i].second - 16);
    }
  }
}

TEST_CASE("a position bias is added to scores, and its gradient summed by distance") {
  const std::string kind = GENERATE(from_range(kinds()));
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const ops::AttentionMask mask = GENERATE(from_range(test::every_mask));
  CAPTURE(kind, core::name_of(type), mask.before, mask.after);
  // Longer than the bias reaches, than a block of rows, than what is computed without packing; a single token.
  const std::vector<int> lengths = {70, 33, 1, 16};
  std::vector<std::vector<int>> positions = test::every_position(lengths);
  const bool selects = GENERATE(false, true);
  if (selects) positions = {{0, 5, 69}, {}, {0}, {15}};
  test::AttentionCase c(type, positions, lengths, 2, 24, selects ? 0.0f : 0.2f);
  c.mask = mask;
  c.bias = some_bias(2);
  if (!selects) c.pad_from_the_middle();
  test::Matrix d_bias(2, 2 * c.keys.view().count);
  const test::AttentionResults results = run(kind, c, d_bias);
  test::check_results(c, results, &d_bias);
}

TEST_CASE("a position bias is added to the scores of many blocks of keys") {
  const std::string kind = GENERATE(from_range(kinds()));
  const DataType type = GENERATE(DataType::fp32, DataType::bf16);
  const ops::AttentionMask mask = GENERATE(ops::AttentionMask::full(), ops::AttentionMask::causal());
  CAPTURE(kind, core::name_of(type), mask.before, mask.after);
  std::vector<std::vector<int>> positions(2);
  for (int p = 0; p < 1100; p += 1 + p % 23) positions[0].push_back(p);
  test::AttentionCase c(type, positions, {1100, 7}, 1, 24, 0.1f);
  c.mask = mask;
  c.bias = some_bias(1);
  test::Matrix d_bias(1, 2 * c.keys.view().count);
  const test::AttentionResults results = run(kind, c, d_bias);
  test::check_results(c, results, &d_bias);
}

TEST_CASE("tensor cores' attention with a position bias, and the bias's gradient, against double") {
  const auto head_dim = GENERATE(as<std::int64_t>(), 32, 64, 128);
  const test::OperandKind kind = GENERATE(test::OperandKind(DataType::bf16), test::OperandKind(DataType::fp16),
                                          test::OperandKind(DataType::fp32), test::OperandKind(DataType::fp32, true));
  const bool pads = GENERATE(false, true);
  CAPTURE(head_dim, kind.name(), pads);
  // Several tiles of queries and of keys, farther apart than the bias reaches; selected rows; a sequence without any.
  const std::vector<int> lengths = {150, 1, 33, 40};
  std::vector<std::vector<int>> positions = test::every_position(lengths);
  positions[2] = {0, 7, 8, 32};
  positions[3] = {};
  test::AttentionCase c(kind, positions, lengths, 2, head_dim, 0.1f);
  c.bias = some_bias(2);
  if (pads) c.pad_from_the_middle();
  test::EmulatedDevice device;
  test::Matrix d_bias(2, 2 * c.keys.view().count);
  const test::AttentionResults r = test::emulate<core::Bf16, core::Fp16, ops::cuda::Tf32, ops::cuda::SplitFp32>(
      device, c, test::BackwardKernel::split, &d_bias);
  test::check_results(c, r, &d_bias);
  for (const std::string& complaint : std::set<std::string>(device.complaints().begin(), device.complaints().end())) {
    FAIL_CHECK(complaint);
  }
}

TEST_CASE("a large position bias leaves tensor cores' gradients finite beside rows behind the last query") {
  test::AttentionCase c(DataType::fp16, test::every_position({41}), {41}, 1, 32, 0.0f);
  c.bias = test::BiasValues(1, 12, 20, 24, 8.0f);  // above 11.1, whose exponential is no fp16
  test::EmulatedDevice device;
  const test::AttentionResults r = test::emulate<core::Fp16>(device, c);
  test::check_results(c, r);
}

TEST_CASE("sums by bucket add up the distances of every sequence") {
  const std::vector<int> lengths = {1, 30, 7};
  const test::Rows keys(lengths);
  const test::BiasValues values(3, 12, 20, 24);
  const std::int64_t slots = 2 * keys.view().count;
  const test::Matrix d_bias = test::Matrix::random(3, slots, 5);
  test::Matrix d_table = test::Matrix::random(3, 12, 6), expected = d_table;
  ops::add_bucket_sums(values.view(), 3, keys.view(), d_bias.tensor(), d_table.tensor());
  const ops::PositionBias by = values.host_view();
  for (std::int64_t head = 0; head < 3; ++head) {
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      for (std::int64_t distance = 1 - lengths[b]; distance < lengths[b]; ++distance) {
        expected(head, by.bucket_of(distance)) +=
            d_bias(head, ops::distance_slot(keys.offsets[b], lengths[b], distance));
      }
    }
  }
  // Sums of at most 60 numbers below 1: 60 · 60 · 2⁻²⁴ = 2.2e-4 at the worst, in practice far less.
  CHECK(test::largest_difference(d_table, expected) < 1e-5);
}
