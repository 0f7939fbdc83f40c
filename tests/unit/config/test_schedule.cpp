// Lengths of [schedule]: one of several keys each, on the command line and in the file.
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

Schedule parse(const std::string& schedule, const std::vector<std::string>& overrides = {}) {
  const std::string text =
      "[run]\ndirectory = \"out\"\n[model]\npretrained = \"folder\"\n[task]\nname = \"classification\"\n"
      "[data]\ntrain = [\"a.h5\"]\n[optimizer]\nlearning_rate = 1e-5\n[schedule]\n" +
      schedule;
  const Config defaults = default_config(bert_hpc::ops::optimizer_inputs(), bert_hpc::model::known_families());
  return bert_hpc::test::parsed_input(text, "in.toml", overrides, defaults).schedule;
}

std::string problem_of(const std::string& schedule) {
  try {
    parse(schedule);
  } catch (const bert_hpc::core::Error& error) {
    return error.what();
  }
  return "no problem";
}

const std::string stable = "name = \"warmup_stable_decay\"\n";

}  // namespace

TEST_CASE("a training is as long as epochs, which may have a fraction, steps, or tokens") {
  CHECK(parse("epochs = 2").epochs == 2.0);
  CHECK(parse("epochs = 0.25").epochs == 0.25);
  const Schedule tokens = parse("tokens = 3e9\nwarmup_tokens = 1e8");
  CHECK(tokens.tokens == 3e9);
  CHECK(tokens.warmup_tokens == 1e8);
  CHECK_FALSE(tokens.warmup_ratio);
  CHECK_FALSE(parse(stable + "tokens = 10\ndecay_tokens = 5").decay_ratio);
}

TEST_CASE("a length on the command line replaces the file's in another unit") {
  for (const std::string length : {"epochs=2", "steps=7", "tokens=1e6"}) {
    const Schedule s = parse("epochs = 1\nwarmup_ratio = 0.1", {"schedule." + length});
    CHECK(s.epochs.has_value() == length.starts_with("epochs"));
    CHECK(s.steps.has_value() == length.starts_with("steps"));
    CHECK(s.tokens.has_value() == length.starts_with("tokens"));
  }
  CHECK_FALSE(parse("tokens = 9\nwarmup_ratio = 0.1", {"schedule.warmup_tokens=1"}).warmup_ratio);
}

TEST_CASE("contradicting lengths are refused with the keys' names") {
  CHECK(problem_of("tokens = 10\nwarmup_tokens = 10") == "no problem");
  CHECK_THAT(problem_of(""), ContainsSubstring("epochs is missing: set epochs, steps or tokens"));
  CHECK_THAT(problem_of("epochs = 1\nsteps = 2"),
             ContainsSubstring("epochs and steps are both given: keep one of them"));
  CHECK_THAT(problem_of("epochs = 1\nsteps = 2\ntokens = 3"),
             ContainsSubstring("epochs, steps and tokens are all given: keep one of them"));
  CHECK_THAT(problem_of("tokens = 3\nwarmup_steps = 1\nwarmup_tokens = 1"),
             ContainsSubstring("warmup_steps and warmup_tokens are both given"));
  CHECK_THAT(problem_of("epochs = 1\nwarmup_tokens = 5"),
             ContainsSubstring("warmup_tokens needs the length of the training in tokens: set tokens"));
  CHECK_THAT(problem_of(stable + "tokens = 10\nwarmup_tokens = 5\ndecay_tokens = 6"),
             ContainsSubstring("warmup_tokens + decay_tokens is more than tokens"));
  CHECK_THAT(problem_of("tokens = 10\ndecay_tokens = 5"),
             ContainsSubstring("decay_tokens belongs to name = \"warmup_stable_decay\""));
  CHECK_THAT(problem_of("epochs = 0"), ContainsSubstring("epochs"));
}
