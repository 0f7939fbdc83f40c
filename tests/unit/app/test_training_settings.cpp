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
