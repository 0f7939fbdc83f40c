// The text of the resolved input, and that input/example_bert_hpc.toml states the same defaults.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "app/engine/model_from_config.hpp"
#include "app/engine/resolved_input.hpp"
#include "app/run/run_directory.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "support/example_input.hpp"
#include "support/parsed_input.hpp"
#include "unit/config/key_list.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

config::Config defaults() {
  return config::default_config(ops::optimizer_inputs(), model::known_families());
}

const std::string minimal =
    "[run]\ndirectory = \"out\"\n[model]\nhidden_size = 64\nnum_hidden_layers = 2\nnum_attention_heads = 2\n"
    "[task]\nname = \"classification\"\n[data]\ntrain = [\"t.h5\"]\n[optimizer]\nlearning_rate = 1e-3\n"
    "[schedule]\nepochs = 1\n";

app::ResolvedInput resolved(const std::vector<std::string>& overrides = {}) {
  config::Config input = test::parsed_input(minimal, "input.toml", overrides, defaults());
  return app::resolved_input(input, app::model_from_config(input));
}

/// Text of a key's value by "table.key".
std::map<std::string, std::string> keys_of(const std::string& toml) {
  std::map<std::string, std::string> keys;
  std::istringstream lines(toml);
  std::string line, table;
  while (std::getline(lines, line)) {
    const auto equals = line.find(" = ");
    if (line.starts_with('[')) table = line.substr(1, line.size() - 2);
    if (equals != std::string::npos) keys[table + '.' + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return keys;
}

}  // namespace

TEST_CASE("the resolved input records the configuration of a model from scratch") {
  const app::ResolvedInput input = resolved({"model.hidden_dropout_prob=0.2"});
  for (const char* line :
       {"hidden_size = 64\n", "intermediate_size = 3072\n", "max_position_embeddings = 512\n", "type_vocab_size = 2\n",
        "hidden_dropout_prob = 0.2\n", "attention_probs_dropout_prob = 0.1\n", "layer_norm_eps = 1e-12\n",
        "initializer_range = 0.02\n", "warmup_ratio = 0.0\n", "global = 32\n"}) {
    CHECK_THAT(input.text, ContainsSubstring(line));
  }
  CHECK_THAT(input.text, !ContainsSubstring("vocab_size = 30522"));  // comes with the shards
  CHECK_THAT(input.defaults, ContainsSubstring("hidden_dropout_prob = 0.1\n"));
  // It reads back to the same, and to the same model.
  config::Config again = test::parsed_input(input.text, "input.toml", {}, defaults());
  CHECK(app::resolved_input(again, app::model_from_config(again)).text == input.text);
  CHECK_THAT(resolved({"schedule.warmup_steps=3"}).text, !ContainsSubstring("warmup_ratio"));
}

TEST_CASE("any key that is given since then is reported") {
  // For each optional key without a default: one value, and the other keys that it needs.
  const std::map<std::string, std::vector<std::string>> given = {
      {"run.peak_gflops", {"run.peak_gflops=100.0"}},
      {"run.machine", {"run.machine=\"m.toml\""}},
      {"run.node_ranks", {"run.machine=\"m.toml\"", "run.node_ranks=4"}},
      {"run.previous_phase", {"run.previous_phase=\"first\""}},
      {"model.vocab_size", {"model.vocab_size=1000"}},
      {"model.classifier_dropout", {"model.classifier_dropout=0.3"}},
      {"schedule.warmup_steps", {"schedule.warmup_steps=2"}},
      {"precision.loss_scale", {"precision.loss_scale=4.0"}},
      {"batch.micro", {"batch.micro=2"}},
      {"batch.micro_tokens", {"batch.micro_tokens=512"}},
      {"model.recompute", {"model.recompute=\"attention\""}},
      {"batch.micro_batches", {"batch.micro_batches=2"}},
      {"batch.memory", {"batch.memory=4e9"}},
      {"batch.warmup_start", {"batch.warmup_start=4", "batch.warmup_steps=9"}},
      {"batch.warmup_increment", {"batch.warmup_start=4", "batch.warmup_steps=9"}},
      {"batch.warmup_tokens", {"batch.warmup_start=4", "batch.warmup_tokens=9.0"}},
      {"batch.warmup_steps", {"batch.warmup_start=4", "batch.warmup_steps=9"}},
      {"schedule.steps", {"schedule.steps=9"}},
      {"schedule.tokens", {"schedule.tokens=9.0"}},
      {"schedule.warmup_tokens", {"schedule.tokens=9.0", "schedule.warmup_tokens=3.0"}},
      {"schedule.decay_tokens",
       {"schedule.tokens=9.0", "schedule.decay_tokens=3.0", "schedule.name=\"warmup_stable_decay\""}},
      {"schedule.decay_steps", {"schedule.decay_steps=3", "schedule.name=\"warmup_stable_decay\""}},
      {"schedule.decay_ratio", {"schedule.decay_ratio=0.2", "schedule.name=\"warmup_stable_decay\""}},
      {"schedule.decay", {"schedule.decay=\"1-sqrt\"", "schedule.name=\"warmup_stable_decay\""}},
      {"evaluation.every_steps", {"evaluation.every_steps=4"}},
      {"evaluation.best", {"evaluation.best=\"loss\""}},
      {"evaluation.patience", {"evaluation.patience=3", "evaluation.best=\"loss\""}},
      {"checkpoint.every_minutes", {"checkpoint.every_minutes=30.0"}},
      {"checkpoint.every_steps", {"checkpoint.every_steps=4"}}};
  // They mean something elsewhere only, are another model, or another at each start of a job.
  std::set<std::string> elsewhere = {"model.pretrained",
                                     "task.mask_probability",
                                     "task.evaluation_mask_probability",
                                     "task.mask_whole_words",
                                     "task.standardize",
                                     "task.class_weights",
                                     "task.focal_gamma",
                                     "task.label_smoothing",
                                     "task.threshold",
                                     "task.clip_predictions",
                                     "task.max_answer_tokens",
                                     "task.all_pieces",
                                     "task.n_best",
                                     "task.no_answer",
                                     "task.pooling",
                                     "task.scale",
                                     "task.similarity",
                                     "task.skip_duplicates",
                                     "task.margin",
                                     "task.symmetric",
                                     "task.dimensions",
                                     "task.loss",
                                     "task.answer_threshold",
                                     "task.skip_unanswerable",
                                     "task.null_threshold",
                                     "schedule.power",
                                     "schedule.end_factor",
                                     "run.max_walltime",
                                     "task.levels",
                                     "task.range",
                                     "model.lora.rank",
                                     "model.lora.alpha",
                                     "model.lora.dropout",
                                     "model.lora.targets",
                                     "model.lora.rslora",
                                     "model.lora.adapter",
                                     "model.lora.dora",
                                     "model.lora.train_head",
                                     "embed.layer",
                                     "embed.pooling",
                                     "embed.normalize",
                                     "embed.dimensions",
                                     "search.qrels",
                                     "distill.teacher",
                                     "distill.teacher_scores",
                                     "distill.compute",
                                     "model.embedding_size"};
  std::set<std::string> of_bert;  // the first family
  for (const core::KnownFamily& family : model::known_families()) {
    const bool is_own = family.name == "bert";
    for (const core::FamilyKey& key : family.keys) {
      const std::string name = "model." + key.key;
      if (is_own) of_bert.insert(name);
      if (!of_bert.contains(name)) elsewhere.insert(name);
    }
  }
  const std::vector<std::string> fp16 = {"data.validation=\"v.h5\"", "precision.compute=\"fp16\""};
  const auto there = keys_of(resolved(fp16).text);
  KeyList list;
  config::Config config = defaults();
  config::visit_keys(list, config);
  for (const std::string& key : list.names) {
    INFO(key);
    const auto values = given.find(key);
    if (there.contains(key) || elsewhere.contains(key)) continue;
    REQUIRE(values != given.end());
    std::vector<std::string> overrides = fp16;
    overrides.insert(overrides.end(), values->second.begin(), values->second.end());
    std::string changes;
    for (const app::KeyChange& change : app::input_changes(resolved(fp16).text, resolved(overrides)))
      changes += describe(change) + '\n';
    CHECK_THAT(changes, ContainsSubstring(key + ": not given there, "));
  }
  // Also where another key has removed its default.
  const auto steps = resolved({"checkpoint.every_steps=4"}),
             minutes = resolved({"checkpoint.every_steps=4", "checkpoint.every_minutes=30.0"});
  CHECK(app::input_changes(steps.text, minutes) ==
        std::vector<app::KeyChange>{{"checkpoint.every_minutes", std::nullopt, "30.0"}});
}

TEST_CASE("the example input states every default") {
  const std::set<std::string> needed = {
      "run.directory", "model.hidden_size", "model.num_hidden_layers", "model.num_attention_heads",
      "task.name",     "data.train",        "optimizer.learning_rate", "schedule.epochs"};
  const auto defaults = keys_of(resolved({"data.validation=\"v.h5\""}).defaults);
  const auto same = [](const std::string& shown, const std::string& usual) {
    char* end = nullptr;
    const double number = std::strtod(usual.c_str(), &end);  // 1e-8 and 1e-08 are one
    return shown.starts_with(usual) || (*end == '\0' && std::strtod(shown.c_str(), nullptr) == number);
  };
  for (const test::KeyLine& line : test::key_lines(test::example_input("bert_hpc"))) {
    const std::string name = line.table + '.' + line.key, shown = line.text.substr(line.key.size() + 3);
    const std::size_t at_default = shown.find("default: ");
    const auto usual = defaults.find(name);
    INFO(name << ": " << shown);
    if (needed.contains(name)) {
      CHECK_THAT(shown, ContainsSubstring("needed"));
    } else if (at_default != std::string::npos && (usual == defaults.end() || line.table == "data")) {
      CHECK_THAT(shown.substr(at_default), ContainsSubstring("default: none"));
    } else if (usual == defaults.end()) {
      CHECK(line.comment);  // an example, or the default if another key asks for it
    } else {
      CHECK(same(at_default == std::string::npos ? shown : shown.substr(at_default + 9), usual->second));
    }
  }
}
