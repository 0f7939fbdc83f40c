// Chunks of a reproducible batch: how many, and which replicas they suit.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "support/parsed_input.hpp"

using namespace bert_hpc::config;
using Catch::Matchers::ContainsSubstring;

namespace {

Config parse(const std::vector<std::string>& overrides) {
  return bert_hpc::test::parsed_input(
      "[run]\ndirectory = \"out\"\n[model]\npretrained = \"folder\"\n[task]\nname = \"regression\"\n"
      "[data]\ntrain = [\"a.h5\"]\n[optimizer]\nlearning_rate = 1e-5\n[schedule]\nepochs = 3\n",
      "in.toml", overrides, default_config(bert_hpc::ops::optimizer_inputs(), bert_hpc::model::known_families()));
}

}  // namespace

TEST_CASE("automatic chunks grow with the batch, in powers of two, and hold at most 64 sequences") {
  std::int64_t before = 1;
  for (std::int64_t global = 1; global <= 70000; global += global < 1100 ? 1 : 977) {
    const std::int64_t chunks = automatic_chunks(global);
    INFO("global = " << global << ", chunks = " << chunks);
    REQUIRE((chunks & (chunks - 1)) == 0);
    REQUIRE(chunks >= before);
    REQUIRE(chunks <= global);
    REQUIRE((global < 8 || (global + chunks - 1) / chunks <= 64));
    REQUIRE(least_batch_of(chunks) <= global);
    REQUIRE(automatic_chunks(least_batch_of(chunks)) == chunks);
    before = chunks;
  }
  CHECK(automatic_chunks(std::int64_t{1} << 30) == 1 << 20);  // the most that the key allows
}

TEST_CASE("reproducible chunks suit every power of two of replicas up to their number, or an error states a remedy") {
  for (const std::int64_t global : {1, 3, 8, 32, 64, 100, 511, 512, 4096}) {
    Config c = parse({"run.reproducible=true", "batch.global=" + std::to_string(global)});
    for (int replicas = 1; replicas <= 128; ++replicas) {
      const bool power_of_two = (replicas & (replicas - 1)) == 0;
      INFO("global = " << global << ", replicas = " << replicas);
      CHECK(validate(c, replicas).empty() == (power_of_two && replicas <= c.batch.chunks));
    }
  }
  Config c = parse({"run.reproducible=true", "batch.global=64"});
  REQUIRE(validate(c, 16).size() == 1);
  CHECK_THAT(validate(c, 16)[0].text, ContainsSubstring("set [batch] chunks = 16") &&
                                          ContainsSubstring("or global to at least 512") &&
                                          ContainsSubstring("at most 8 replicas"));
  for (const char* cure : {"batch.chunks=16", "batch.global=512"}) {
    c = parse({"run.reproducible=true", "batch.global=64", cure});
    CHECK(validate(c, 16).empty());
  }
  CHECK_THROWS_WITH(parse({"run.reproducible=true", "batch.chunks=6"}), ContainsSubstring("must be a power of two"));
  CHECK_NOTHROW(parse({"batch.chunks=6"}));
  c = parse({"run.reproducible=true", "run.mode='evaluate'", "data.test=['t.h5']"});
  CHECK(validate(c, 16).empty());  // evaluations have no chunks
}
