// What --validate compares of [model] recompute and trainable.
#include <catch2/catch_test_macros.hpp>

#include "app/plan/model_choices.hpp"

using namespace bert_hpc;

namespace {

std::string values(const std::vector<app::ModelChoice>& choices) {
  std::string text;
  for (const app::ModelChoice& choice : choices) text += choice.value + ' ';
  return text;
}

}  // namespace

TEST_CASE("the choices of recompute are all that go with the input, its own among them", "[app]") {
  config::Config input;
  CHECK(values(app::recompute_choices(input)) == "\"none\" \"attention\" \"blocks\" ");
  CHECK(app::recompute_choices(input)[2].input.model.recompute == "blocks");
  input.model.recompute_blocks = {3};
  const auto choices = app::recompute_choices(input);
  CHECK(values(choices) == "\"none\" \"attention\" \"blocks\" 3 ");
  CHECK(choices[0].input.model.recompute_blocks.empty());
  CHECK(choices[3].input.model.recompute_blocks == std::vector<double>{3});
  input.model.recompute_blocks.clear();
  input.parallel.pipeline_schedule = "zb_h1";
  CHECK(values(app::recompute_choices(input)) == "\"none\" ");
  input.parallel.pipeline_schedule = "1f1b";
  input.precision.compute = "fp8";
  CHECK(values(app::recompute_choices(input)) == "\"none\" ");
}

TEST_CASE("partial training is compared with that of everything", "[app]") {
  config::Config input;
  CHECK(app::trainable_choices(input).empty());
  input.model.trainable = "lora";
  input.model.freeze_layers = 1;
  input.model.lora.rank = 4;
  const auto choices = app::trainable_choices(input);
  CHECK(values(choices) == "\"all\" \"lora\" above 1 frozen layer ");
  CHECK(choices[0].input.model.trainable == "all");
  CHECK(choices[0].input.model.freeze_layers == 0);
  CHECK_FALSE(choices[0].input.model.lora.is_given());
  CHECK(choices[1].input.model.lora.rank == 4);
}

TEST_CASE("a choice's time is a share of the first one's where the machine is not known", "[app]") {
  const std::vector<app::ModelChoice> choices = {{"\"none\"", {}}, {"\"blocks\"", {}}};
  const std::vector<app::ChoiceCosts> costs = {{3 << 20, 0.5}, {1 << 20, 0.65}};
  CHECK(app::choices_text(choices, costs, true) == "\"none\" 3.0 MiB, 500 ms; \"blocks\" 1.0 MiB, 650 ms");
  CHECK(app::choices_text(choices, costs, false) ==
        "\"none\" 3.0 MiB, 100% of the operations; \"blocks\" 1.0 MiB, 130% of the operations");
}
