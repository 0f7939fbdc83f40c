// Settings of a training that follow from several keys of the input.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "app/engine/training_settings.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "support/parsed_input.hpp"

using namespace bert_hpc;

namespace {

app::TrainerSettings settings(const std::vector<std::string>& overrides) {
  const std::string text =
      "[run]\ndirectory = \"out\"\n[model]\nhidden_size = 64\nnum_hidden_layers = 2\nnum_attention_heads = 2\n"
      "[task]\nname = \"classification\"\n[data]\ntrain = [\"t.h5\"]\n[optimizer]\nlearning_rate = 0.25\n"
      "weight_decay = 0.5\n[schedule]\nepochs = 1\n";
  const config::Config known = config::default_config(ops::optimizer_inputs(), model::known_families());
  return app::trainer_settings(test::parsed_input(text, "in.toml", overrides, known), 200);
}

}  // namespace

TEST_CASE("weight decay that is independent of the rate is divided by its peak, by which optimizers multiply it") {
  CHECK(settings({}).optimizer.values.back() == 0.5);
  CHECK(settings({"optimizer.decay=\"independent\""}).optimizer.values.back() == 2.0);
  CHECK_FALSE(settings({"optimizer.decay=\"independent\""}).optimizer.coupled_decay);
}

TEST_CASE("steps of warm-up and decay are ratios of all steps, rounded up, or as given") {
  const std::string name = "schedule.name=\"warmup_stable_decay\"";
  CHECK(settings({name}).schedule.decay_steps == 20);
  CHECK(settings({name, "schedule.warmup_ratio=0.011", "schedule.decay_ratio=0.0721"}).schedule.warmup_steps == 3);
  const auto given = settings({name, "schedule.decay_steps=7", "schedule.decay=\"1-sqrt\""}).schedule;
  CHECK(given.decay_steps == 7);
  CHECK(given.decay == train::LearningRateSchedule::Decay::one_minus_root);
  const auto tokens =
      settings({name, "schedule.tokens=3e9", "schedule.warmup_tokens=3e8", "schedule.decay_tokens=5.01e8"}).schedule;
  CHECK(tokens.warmup_steps == 20);
  CHECK(tokens.decay_steps == 34);  // 33.4
}

TEST_CASE("evaluations that are left") {
  const data::BatchSchedule sizes(80, 8, false);
  config::Evaluation settings;
  settings.every_steps = 10;
  const app::EvaluationSteps steps(settings, sizes);
  CHECK(steps.left(0, 100) == 10);
  CHECK(steps.left(9, 100) == 10);
  CHECK(steps.left(10, 100) == 10);  // that of step 10 is yet to come
  CHECK(steps.left(11, 100) == 9);
  CHECK(steps.left(100, 100) == 1);
  CHECK(steps.left(91, 95) == 1);
  CHECK(steps.left(90, 95) == 2);
  CHECK(steps.left(101, 100) == 0);
}

TEST_CASE("evaluations after epochs follow the steps that an epoch has while batches grow") {
  // Epochs of 64 sequences: 16 of 4, then 4 of 4 and 6 of 8, then 8 of 8.
  const data::BatchSchedule sizes(64, 8, false, {.start = 4, .increment = 4, .steps = 20});
  config::Evaluation settings;
  settings.every_epochs = 1;
  const app::EvaluationSteps every(settings, sizes);
  std::vector<int> due;
  for (int done = 0; done <= 42; ++done) {
    if (every.due(done)) due.push_back(done);
  }
  CHECK(due == std::vector<int>{16, 26, 34, 42});
  CHECK(every.left(17, 40) == 3);
  settings.every_epochs = 2;
  CHECK(every.due(26));
  CHECK_FALSE(every.due(34));
}

TEST_CASE("lengths in tokens are steps of growing batches") {
  // 1,000 tokens in 100 sequences: 60 sequences in 15 steps of 4, then 8 in each.
  const data::BatchSchedule sizes(100, 8, false, {.start = 4, .increment = 4, .epochs = 0.6});
  const config::Config known = config::default_config(ops::optimizer_inputs(), model::known_families());
  const std::string text =
      "[run]\ndirectory = \"out\"\n[model]\nhidden_size = 64\nnum_hidden_layers = 2\nnum_attention_heads = 2\n"
      "[task]\nname = \"classification\"\n[data]\ntrain = [\"t.h5\"]\n[optimizer]\nlearning_rate = 0.25\n"
      "[schedule]\nname = \"warmup_stable_decay\"\ntokens = 1000\nwarmup_tokens = 200\ndecay_tokens = 240\n";
  const auto schedule = app::trainer_settings(test::parsed_input(text, "in.toml", {}, known), 20, &sizes).schedule;
  CHECK(schedule.total_steps == 20);
  CHECK(schedule.warmup_steps == 5);  // 20 sequences; a fifth of the steps would be 4
  CHECK(schedule.decay_steps == 3);   // the last 24 sequences: 76 of 100 need 17 steps
}
