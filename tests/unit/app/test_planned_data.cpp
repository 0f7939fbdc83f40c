// Planned data sets: their lengths and their assumptions.
#include "app/engine/planned_data.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <numeric>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using app::planned_lengths;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

double mean(const std::vector<std::int32_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(lengths.size());
}

void plan(app::DataSets& sets, std::int64_t tokens) {
  config::Config input;
  input.task.name = "classification";
  input.data.test = {"no/such/file.h5"};
  app::plan_data(sets, input, {}, tokens, 128);
}

}  // namespace

TEST_CASE("planned lengths have the mean that was asked for, within the model's limit") {
  for (const double length : {1.0, 17.6, 128.0, 400.0, 512.0}) {
    const app::PlannedLengths planned = planned_lengths(1000000, length, 512);
    const std::vector<std::int32_t> lengths = planned.lengths();
    CHECK(std::ssize(lengths) == planned.sequences);
    CHECK(mean(lengths) == Approx(length).epsilon(0.02));
    const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
    CHECK(*least >= 1);
    CHECK(*most <= 512);
    CHECK(*most == planned.longest);
  }
  CHECK(planned_lengths(10, 128, 512).sequences == 1);
  CHECK(mean(planned_lengths(1280, 128, 512).lengths()) == Approx(128).epsilon(0.02));
}

TEST_CASE("lengths that no model of this size takes, and too many sequences, are refused") {
  const auto problem = [](std::int64_t tokens, double length) {
    try {
      planned_lengths(tokens, length, 512);
    } catch (const core::Error& error) {
      CHECK(error.code() == core::ExitCode::input);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(problem(1000, 513), ContainsSubstring("max_position_embeddings = 512"));
  CHECK_THAT(problem(std::int64_t{1} << 40, 2), ContainsSubstring("134,217,728"));
}

TEST_CASE("planned data need no file, and state their assumptions") {
  app::DataSets sets;
  plan(sets, 1000000);
  CHECK(sets.train->planned());
  CHECK(sets.train->info().tokens == Approx(1000000).epsilon(0.01));
  CHECK(sets.test->info().tokens == Approx(125000).epsilon(0.01));
  CHECK(!sets.validation);
  std::vector<std::int32_t> ids(512), types(512);
  sets.train->read(7, ids.data(), types.data());
  CHECK(ids[0] >= 5);
  CHECK_THAT(app::planned_data_text(sets), ContainsSubstring("7,813 sequences, lengths uniform from 1 to 255 tokens") &&
                                               ContainsSubstring("an eighth"));
  CHECK(sets.train->memory_bytes() > 3 * 1000000 * 0.99);  // 16 bits of an id, 8 of a type
}

TEST_CASE("data with fewer sequences than replicas are repeated, with a warning each") {
  app::DataSets sets;
  plan(sets, 12800);
  const auto warnings = app::extend_to_replicas(sets, 1024, 2048);
  REQUIRE(warnings.size() == 2);
  CHECK_THAT(warnings[0],
             ContainsSubstring("data.train has 100 sequences, fewer than the 1,024 data-parallel replicas"));
  CHECK(sets.train->samples() == 2100);
  CHECK(sets.train->info().mean_length() == Approx(128).epsilon(0.02));
  CHECK(app::extend_to_replicas(sets, 1024, 2048).empty());
}
