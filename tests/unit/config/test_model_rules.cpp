// Values of [model] head and the keys that they are compatible with.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "support/parsed_input.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string problems(const std::vector<std::string>& overrides,
                     const std::string& model = "pretrained = \"folder\"\n") {
  const std::string text =
      "[run]\ndirectory = \"out\"\n[model]\n" + model +
      "[task]\nname = \"classification\"\n"
      "[data]\ntrain = [\"a.h5\"]\ntest = [\"b.h5\"]\n[optimizer]\nlearning_rate = 1e-5\n[schedule]\nepochs = 3\n";
  try {
    test::parsed_input(text, "in.toml", overrides,
                       config::default_config(ops::optimizer_inputs(), model::known_families()));
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no problem";
}

}  // namespace

TEST_CASE("the head of a pretrained model can be kept in every mode, and be new in a training") {
  for (const char* head : {"auto", "keep", "new"}) {
    CHECK(problems({std::string("model.head='") + head + '\''}) == "no problem");
  }
  CHECK(problems({"model.head='keep'", "run.mode='evaluate'"}) == "no problem");
  CHECK_THAT(problems({"model.head='new'", "run.mode='evaluate'"}),
             ContainsSubstring("[model] head = \"new\" is for trainings"));
  CHECK_THAT(problems({"model.head='other'"}), ContainsSubstring("it must be \"auto\""));
}

TEST_CASE("adapters are trained with or without the head, but of masked_lm alone") {
  const std::vector<std::string> with = {"model.trainable='lora'", "model.lora.train_head=true"},
                                 without = {"model.trainable='lora'", "model.lora.train_head=false"};
  CHECK(problems(with) == "no problem");
  CHECK(problems(without) == "no problem");
  CHECK_THAT(problems({with[0], with[1], "task.name='masked_lm'"}),
             ContainsSubstring("train_head = true is not possible with the task \"masked_lm\""));
  CHECK(problems({without[0], without[1], "task.name='masked_lm'"}) == "no problem");
  CHECK_THAT(problems({"model.trainable='bitfit'", without[1]}), ContainsSubstring("belongs to trainable = \"lora\""));
  CHECK_THAT(problems({without[1], "run.mode='evaluate'"}), ContainsSubstring("has only the key adapter"));
}

TEST_CASE("a model from scratch and a head without labels have no key head") {
  CHECK_THAT(problems({"model.head='new'", "task.name='masked_lm'"}),
             ContainsSubstring("head does not belong to the task \"masked_lm\""));
  const std::string sizes = "hidden_size = 32\nnum_hidden_layers = 1\nnum_attention_heads = 2\n";
  CHECK(problems({}, sizes) == "no problem");
  CHECK_THAT(problems({"model.head='keep'"}, sizes), ContainsSubstring("[model] head belongs to pretrained"));
}
