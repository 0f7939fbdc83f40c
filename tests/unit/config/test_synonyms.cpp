// Names of other trainers in an input lead to our keys and values, whichever table they are in.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../src/config/synonym_tables.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "support/parsed_input.hpp"

using namespace bert_hpc::config;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string minimal = R"([run]
directory = "run"
[model]
hidden_size = 8
num_hidden_layers = 1
num_attention_heads = 1
[task]
name = "classification"
[data]
train = ["a.h5"]
[optimizer]
learning_rate = 1e-3
[schedule]
epochs = 1
)";

std::string problems(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    bert_hpc::test::parsed_input(text, "in.toml", overrides,
                                 default_config(bert_hpc::ops::optimizer_inputs(), bert_hpc::model::known_families()));
  } catch (const bert_hpc::core::Error& error) {
    return error.what();
  }
  return "no problem";
}

void leads_to(const std::string& override_text, const std::string& expected) {
  CHECK_THAT(problems(minimal, {override_text}), ContainsSubstring(expected));
}

}  // namespace

TEST_CASE("names of Transformers' arguments lead to our keys from any table") {
  leads_to("run.num_train_epochs=3", "unknown key \"num_train_epochs\" in [run]; use [schedule] epochs");
  leads_to("schedule.num_train_epochs=3", "did you mean \"epochs\"?");
  leads_to("run.lr=1", "use [optimizer] learning_rate");
  leads_to("run.learning_rate=1", "it belongs to [optimizer]");
  leads_to("run.weight_decay=1", "it belongs to [optimizer]");
  leads_to("optimizer.per_device_train_batch_size=8", "use [batch] global, the number of sequences per update");
  leads_to("batch.gradient_accumulation_steps=8", "use [batch] global, the number of sequences per update");
  leads_to("run.bf16=true", "use [precision] compute = \"bf16\"");
  leads_to("precision.fp16=true", "use [precision] compute = \"fp16\"");
  leads_to("data.output_dir=\"x\"", "use [run] directory");
  leads_to("run.output_dir=\"x\"", "did you mean \"directory\"?");
  leads_to("run.report_to=\"tensorboard\"", "use [log] tensorboard = true");
  leads_to("run.warmup_ratio=0.1", "it belongs to [schedule]");
  leads_to("schedule.max_grad_norm=1", "use [optimizer] max_gradient_norm");
  leads_to("optimizer.adam_beta1=0.9", "did you mean \"beta1\"?");
  leads_to("optimizer.lr_scheduler_type=\"linear\"", "use [schedule] name");
  leads_to("evaluation.evaluation_strategy=\"steps\"", "use [evaluation] every_steps or every_epochs");
  leads_to("run.save_steps=1", "use [checkpoint] every_steps");
  leads_to("run.save-total-limit=1", "use [checkpoint] keep");
  leads_to("evaluation.metric_for_best_model=\"f1\"", "did you mean \"best\"?");
  leads_to("run.load_best_model_at_end=true", "use [evaluation] best = a metric's name");
  leads_to("run.early_stopping_patience=3", "use [evaluation] patience");
  leads_to("run.resume_from_checkpoint=true", "use [run] resume");
  leads_to("model.model_name_or_path=\"x\"", "use [model] pretrained");
  leads_to("run.gradient_checkpointing=true", "in [run]; use [");
  leads_to("data.max_seq_length=128", "set [tokenizer] max_tokens in the input of bert_hpc_prep");
  leads_to("run.logging_steps=1", "use [log] every_steps");
  leads_to("data.dataloader_num_workers=4", "no key is needed");
  leads_to("data.weights=[0.7, 0.3]", "[data] repeat, how often an epoch has the shards of each entry of train");
  leads_to("parallel.deepspeed=\"x\"", "use [parallel] zero = 1 or 2");
  leads_to("run.every_steps=3", "it belongs to [checkpoint], [evaluation] or [log]");
}

TEST_CASE("keys in an unknown table and outside of all tables lead to ours too") {
  const std::string text =
      problems("num_train_epochs = 3\n[TrainingArguments]\nlearning_rate = 1\nseed = 3\nnonsense = 1\n" + minimal);
  CHECK_THAT(text, ContainsSubstring(
                       "in.toml:1:1: the key \"num_train_epochs\" stands outside any table; use [schedule] epochs"));
  CHECK_THAT(text, ContainsSubstring("in.toml:2:2: unknown table [TrainingArguments]"));
  CHECK_THAT(text, ContainsSubstring(
                       "in.toml:3:1: unknown key \"learning_rate\" in [TrainingArguments]; it belongs to [optimizer]"));
  CHECK_THAT(text, ContainsSubstring("in.toml:4:1: unknown key \"seed\" in [TrainingArguments]; it belongs to [run]"));
  CHECK_THAT(text, !ContainsSubstring("nonsense"));
}

TEST_CASE("a synonym stands for the key that is missing") {
  const std::string text = problems(minimal, {"schedule.epochs=1"});
  CHECK(text == "no problem");
  std::string renamed = minimal;
  renamed.replace(renamed.find("epochs"), 6, "num_train_epochs");
  CHECK_THAT(problems(renamed),
             ContainsSubstring("did you mean \"epochs\"?") && !ContainsSubstring("epochs is missing"));
}

TEST_CASE("values of other trainers lead to ours") {
  leads_to("precision.compute=\"bfloat16\"", "did you mean \"bf16\"?");
  leads_to("precision.compute=\"float16\"", "did you mean \"fp16\"?");
  leads_to("precision.compute=\"float32\"", "did you mean \"fp32\"?");
  leads_to("task.name=\"mlm\"", "did you mean \"masked_lm\"?");
  leads_to("task.name=\"sst2\"", "did you mean \"classification\"?");
  leads_to("optimizer.name=\"adamw_torch\"", "did you mean \"adamw\"?");
  leads_to("schedule.name=\"constant_with_warmup\"", "did you mean \"constant\"?");
  CHECK_THAT(problems(minimal, {"data.validation=[\"b\"]", "evaluation.best=\"eval_accuracy\""}),
             ContainsSubstring("did you mean \"accuracy\"?"));
}

TEST_CASE("names of the synonym tables are in lower case and occur once for each target") {
  const auto is_folded = [](std::string_view name) {
    return std::none_of(name.begin(), name.end(),
                        [](char c) { return (c >= 'A' && c <= 'Z') || c == '-' || c == ' '; });
  };
  for (const KeySynonym& synonym : key_synonyms) {
    INFO(synonym.name << " → " << synonym.target);
    CHECK(is_folded(synonym.name));
    CHECK(std::count_if(std::begin(key_synonyms), std::end(key_synonyms), [&](const KeySynonym& other) {
            return std::string_view(other.name) == synonym.name && std::string_view(other.target) == synonym.target;
          }) == 1);
  }
  for (const ValueSynonym& synonym : value_synonyms) CHECK(is_folded(synonym.value));
}
