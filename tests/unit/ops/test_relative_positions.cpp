#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "bert_hpc/core/device_memory.hpp"
#include "support/attention_case.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using core::DataType;

namespace {

std::vector<std::string> kinds() {
  return core::is_gpu_build() ? std::vector<std::string>{"portable", "fused"}
                              : std::vector<std::string>{"portable", "plain", "fused", "fused-baseline"};
}

test::AttentionResults run(const std::string& kind, const test::AttentionCase& c, bool sums_distances = true) {
  test::AttentionResults r(c);
  const auto attention = ops::make_attention(kind, c.type, c.tf32);
  attention->reserve(c.extents.max_length, c.extents.head_dim, true);
  const ops::AttentionResults results{r.out.view(), r.lse.tensor(), r.kept()};
  attention->forward(c.inputs(), results);
  ops::AttentionGradients gradients{r.d_q.view(), r.d_k(), r.d_v()};
  if (sums_distances) {
    gradients.d_relative_keys = r.d_relative_keys.tensor();
    gradients.d_relative_queries = r.d_relative_queries.tensor();
  }
  attention->backward(c.inputs(), results, c.d_out, gradients);
  return r;
}

}  // namespace

TEST_CASE("DeBERTa's buckets are those of Transformers") {
  // From make_log_bucket_position of Transformers 5.24 with (position_buckets, max_position): of query - key, clamped.
  const std::vector<std::int32_t> buckets = ops::deberta_buckets(256, 512, 600);
  const auto bucket_of = [&](int query_minus_key) { return buckets[static_cast<std::size_t>(600 - query_minus_key)]; };
  const std::vector<std::pair<int, int>> expected = {
      {0, 0},     {1, 1},     {127, 127}, {128, 128}, {129, 129}, {131, 131}, {140, 137}, {200, 169},
      {256, 192}, {300, 207}, {400, 233}, {500, 254}, {509, 255}, {511, 255}, {512, 255}, {600, 255}};
  for (const auto& [distance, bucket] : expected) {
    INFO("distance " << distance);
    CHECK(bucket_of(distance) == 256 + bucket);
    CHECK(bucket_of(-distance) == 256 - bucket - (distance > 511 ? 1 : 0));
  }
  // The first distance of each bucket of (8, 24), up to the clamp.
  const std::vector<std::int32_t> few = ops::deberta_buckets(8, 24, 50);
  const std::vector<std::pair<int, int>> first_of = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {8, 6}, {13, 7}};
  for (std::size_t i = 0; i < first_of.size(); ++i) {
    const int end = i + 1 < first_of.size() ? first_of[i + 1].first : 24;
    for (int distance = first_of[i].first; distance < end; ++distance) {
      INFO("distance " << distance);
      CHECK(few[static_cast<std::size_t>(50 - distance)] == 8 + first_of[i].second);
      CHECK(few[static_cast<std::size_t>(50 + distance)] == 8 - first_of[i].second);
    }
  }
  CHECK(few.front() == 15);
  CHECK(few.back() == 0);
}

TEST_CASE("disentangled attention and its gradients against double") {
  const std::string kind = GENERATE(from_range(kinds()));
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const ops::AttentionMask mask = GENERATE(ops::AttentionMask::full(), ops::AttentionMask::window(24));
  CAPTURE(kind, core::name_of(type), mask.before);
  // Longer than a block of queries and two of keys, than the buckets reach; a single token.
  const std::vector<int> lengths = {150, 33, 1, 64};
  std::vector<std::vector<int>> positions = test::every_position(lengths);
  const bool selects = GENERATE(false, true);
  // Farther from each other than a block of queries reaches; no query of a sequence.
  if (selects) positions = {{0, 5, 127, 128, 149}, {}, {0}, {63}};
  test::AttentionCase c(type, positions, lengths, 2, 24, selects ? 0.0f : 0.2f);
  c.mask = mask;
  c.relative.emplace(type, c.hidden, 16, 40, 40);
  if (!selects) c.pad_from_the_middle();
  test::check_results(c, run(kind, c));
}

TEST_CASE("disentangled attention leaves out sums of frozen distances") {
  const std::string kind = GENERATE(from_range(kinds()));
  CAPTURE(kind);
  test::AttentionCase c(DataType::fp32, test::every_position({70, 9}), {70, 9}, 2, 24, 0.0f);
  c.relative.emplace(c.type, c.hidden, 16, 40, 40);
  const test::AttentionResults all = run(kind, c), some = run(kind, c, false);
  CHECK(some.d_q.floats() == all.d_q.floats());
  CHECK(some.d_kv.floats() == all.d_kv.floats());
}

TEST_CASE("sums of rows by bucket add up the distances of every sequence") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16);
  const std::vector<int> lengths = {1, 30, 70};
  const test::Rows keys(lengths);
  constexpr std::int64_t columns = 200, first_bucket = 3, count = 25;
  const test::RelativeValues values(type, columns, 16, 40, 40);
  const std::int64_t slots = 2 * keys.view().count;
  const test::Matrix by_distance = test::Matrix::random(slots, columns, 5);
  test::StoredMatrix sums(type, count, columns, 8);
  ops::sum_rows_by_bucket(values.view().distances, std::ssize(lengths), keys.view(), by_distance.tensor(), first_bucket,
                          sums.view());
  std::vector<double> expected(static_cast<std::size_t>(count * columns));
  const ops::DistanceBuckets by = values.host_buckets();
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    for (std::int64_t distance = 1 - lengths[b]; distance < lengths[b]; ++distance) {
      const std::int64_t row = by.bucket_of(distance) - first_bucket;
      if (row < 0 || row >= count) continue;
      for (std::int64_t column = 0; column < columns; ++column) {
        expected[static_cast<std::size_t>(row * columns + column)] +=
            by_distance(ops::distance_slot(keys.offsets[b], lengths[b], distance), column);
      }
    }
  }
  // At most 64 numbers below 1: 64 · 64 · 2⁻²⁴ = 2.4e-4 at the worst, in practice far less; then one rounding.
  const std::vector<float> result = sums.floats();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(std::abs(result[i] - expected[i]) <= 1e-5 + core::unit_roundoff(type) * std::abs(expected[i]));
  }
}
