// Keys of [batch] by which updates grow: defaults and what is refused.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "support/parsed_input.hpp"

using namespace bert_hpc::config;
using Catch::Matchers::ContainsSubstring;

namespace {

Config parse(const std::string& batch, const std::vector<std::string>& overrides = {}) {
  const std::string text =
      "[run]\ndirectory = \"out\"\n[model]\npretrained = \"folder\"\n[task]\nname = \"classification\"\n"
      "[data]\ntrain = [\"a.h5\"]\n[optimizer]\nlearning_rate = 1e-5\n[schedule]\nsteps = 100\n[batch]\nglobal = 64\n" +
      batch;
  const Config defaults = default_config(bert_hpc::ops::optimizer_inputs(), bert_hpc::model::known_families());
  return bert_hpc::test::parsed_input(text, "in.toml", overrides, defaults);
}

std::string problem_of(const std::string& batch, const std::vector<std::string>& overrides = {}) {
  try {
    parse(batch, overrides);
  } catch (const bert_hpc::core::Error& error) {
    return error.what();
  }
  return "no problem";
}

}  // namespace

TEST_CASE("updates grow by their first size unless the input says otherwise") {
  CHECK_FALSE(parse("").batch.warmup_increment);
  const Batch growing = parse("warmup_start = 16\nwarmup_steps = 30").batch;
  CHECK(growing.warmup_start == 16);
  CHECK(growing.warmup_increment == 16);
  CHECK(parse("warmup_start = 16\nwarmup_increment = 4\nwarmup_tokens = 1e6").batch.warmup_increment == 4);
  const Batch other = parse("warmup_start = 16\nwarmup_steps = 30", {"batch.warmup_tokens=2e3"}).batch;
  CHECK(other.warmup_tokens == 2e3);
  CHECK_FALSE(other.warmup_steps);
}

TEST_CASE("a warm-up of updates that cannot be is refused with its cure") {
  CHECK(problem_of("warmup_start = 16\nwarmup_steps = 100") == "no problem");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"warmup_start = 16", "set warmup_tokens or warmup_steps"},
      {"warmup_steps = 10", "warmup_steps needs the sequences of the first updates: set warmup_start"},
      {"warmup_increment = 8", "warmup_increment needs the sequences of the first updates"},
      {"warmup_start = 16\nwarmup_steps = 10\nwarmup_tokens = 5", "are both given: keep one of them"},
      {"warmup_start = 64\nwarmup_steps = 10", "warmup_start = 64 must be less than global = 64"},
      {"warmup_start = 16\nwarmup_steps = 101", "warmup_steps = 101 is more than [schedule] steps = 100"},
  };
  for (const auto& [batch, text] : cases) CHECK_THAT(problem_of(batch), ContainsSubstring(text));
  CHECK_THAT(problem_of("warmup_start = 1\nwarmup_increment = 1\nwarmup_steps = 10", {"batch.global=1000000"}),
             ContainsSubstring("makes 999,999 sizes of updates"));
  CHECK_THAT(problem_of("warmup_start = 16\nwarmup_tokens = 11", {"schedule.tokens=10"}),
             ContainsSubstring("warmup_tokens is more than [schedule] tokens"));
}

TEST_CASE("the first updates have a sequence for each replica") {
  const Config config = parse("warmup_start = 4\nwarmup_steps = 10");
  CHECK(validate(config, 4).empty());
  const std::vector<ConfigProblem> problems = validate(config, 8);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().key == "batch.warmup_start");
  CHECK_THAT(problems.front().text, ContainsSubstring("warmup_start = 4 is less than the 8 replicas"));
}
