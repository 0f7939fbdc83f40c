// Keys of [run] by which a training begins where another one has ended.
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

TEST_CASE("a phase is a training after another one") {
  const std::string text =
      "[run]\ndirectory = \"out\"\n[model]\npretrained = \"folder\"\n[task]\nname = \"classification\"\n"
      "[data]\ntrain = [\"a.h5\"]\n[optimizer]\nlearning_rate = 1e-5\n[schedule]\nsteps = 100\n";
  const Config defaults = default_config(bert_hpc::ops::optimizer_inputs(), bert_hpc::model::known_families());
  const std::string previous = "run.previous_phase=\"first\"", counts = "run.phase_steps=\"continue\"";
  const auto parse = [&](const std::vector<std::string>& overrides) {
    return bert_hpc::test::parsed_input(text, "in.toml", overrides, defaults);
  };
  CHECK(parse({previous, counts}).run.previous_phase == "first");
  CHECK(parse({}).run.phase_steps == "restart");
  CHECK_THROWS_WITH(parse({counts}),
                    ContainsSubstring("[run] phase_steps needs the run to continue: set previous_phase"));
}
