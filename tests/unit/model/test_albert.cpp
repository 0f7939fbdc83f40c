// ALBERT: its config.json and what of a plan is its own. Its numbers are checked against Transformers in tests/golden.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "bert_hpc/model/trainable.hpp"
#include "support/heads.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

// The config.json of albert/albert-base-v2.
const std::string albert_base =
    R"({"model_type": "albert", "architectures": ["AlbertForMaskedLM"], "attention_probs_dropout_prob": 0,
  "bos_token_id": 2, "classifier_dropout_prob": 0.1, "down_scale_factor": 1, "embedding_size": 128, "eos_token_id": 3,
  "gap_size": 0, "hidden_act": "gelu_new", "hidden_dropout_prob": 0, "hidden_size": 768, "initializer_range": 0.02,
  "inner_group_num": 1, "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
  "net_structure_type": 0, "num_attention_heads": 12, "num_hidden_groups": 1, "num_hidden_layers": 12,
  "num_memory_blocks": 0, "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": 30000})";

nlohmann::json changed(const std::string& key, const nlohmann::json& value) {
  nlohmann::json config = nlohmann::json::parse(albert_base);
  config[key] = value;
  return config;
}

std::string refusal_of(const std::string& key, const nlohmann::json& value) {
  try {
    core::ProblemList problems;
    model::check_model(model::parse_hf_config(changed(key, value).dump(), "x"), problems);
    problems.throw_if_any(core::ExitCode::input, "refused:");
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

model::ModelPlan plan_of(const nlohmann::json& config) {
  return model::make_plan(model::parse_hf_config(config.dump(), "x"), test::masked_lm_head, 2);
}

/// Names of all parameters that end so, and of which parameters they are copies.
std::map<std::string, std::string> copies(const model::ModelPlan& plan, const std::string& end) {
  std::map<std::string, std::string> found;
  for (const core::ParameterSpec& spec : model::model_parameters(plan, model::whole(plan))) {
    if (spec.name.ends_with(end)) found[spec.name] = spec.copy_of;
  }
  return found;
}

}  // namespace

TEST_CASE("ALBERT's config.json makes blocks that are copies of the first one") {
  const model::ModelConfig config = model::parse_hf_config(albert_base, "x");
  const auto written = nlohmann::json::parse(model::hf_config_text(config, test::masked_lm_head));
  const nlohmann::json given = nlohmann::json::parse(albert_base);
  for (const auto& [key, value] : given.items()) {
    INFO(key);
    const bool is_unread = key == "bos_token_id" || key == "eos_token_id" || key == "down_scale_factor" ||
                           key == "gap_size" || key == "net_structure_type" || key == "num_memory_blocks";
    if (!is_unread) CHECK(written[key] == value);
  }
  const model::ModelPlan plan = model::make_plan(config, test::masked_lm_head, 2);
  CHECK(plan.shares_blocks);
  const std::string block = "albert.encoder.albert_layer_groups.0.albert_layers.0.";
  for (const std::string part : {"attention.query.weight", "attention.LayerNorm.bias", "ffn_output.weight"}) {
    const std::map<std::string, std::string> found = copies(plan, part);
    CHECK(found.size() == 12);
    for (const auto& [name, original] : found) CHECK(original == (name == block + part ? "" : block + part));
  }
  // 11,685,680 parameters, the 11.7 million that files hold.
  std::int64_t own = 0;
  for (const core::ParameterSpec& spec : model::model_parameters(plan, model::whole(plan))) {
    if (spec.copy_of.empty()) own += core::elements_of(spec.shape);
  }
  const std::int64_t of_embeddings = (30000 + 512 + 2) * 128 + 2 * 128 + 128 * 768 + 768;
  const std::int64_t of_block = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768;
  const std::int64_t of_head = 768 * 128 + 128 + 2 * 128 + 30000;
  CHECK(own == of_embeddings + of_block + of_head);
}

TEST_CASE("groups of ALBERT's blocks are as long as Transformers makes them") {
  // int(i / (5 / 2)) of blocks 0 to 4: 0, 0, 0, 1, 1
  nlohmann::json config = changed("num_hidden_layers", 5);
  config["num_hidden_groups"] = 2;
  const std::string part = "ffn.weight", groups = "albert.encoder.albert_layer_groups.";
  const std::string first = groups + "0.albert_layers.0." + part, second = groups + "1.albert_layers.0." + part;
  const std::map<std::string, std::string> expected = {{first, ""},
                                                       {"albert.encoder.block.1." + part, first},
                                                       {"albert.encoder.block.2." + part, first},
                                                       {second, ""},
                                                       {"albert.encoder.block.4." + part, second}};
  CHECK(copies(plan_of(config), part) == expected);
  config["num_hidden_groups"] = 5;
  CHECK(!plan_of(config).shares_blocks);
}

TEST_CASE("blocks with the same parameters are frozen together") {
  const model::ModelPlan plan = plan_of(nlohmann::json::parse(albert_base));
  const auto freeze = [&plan](std::int64_t blocks) {
    return model::trainable_parameters(plan, {.freeze_layers = blocks, .from_scratch = false});
  };
  CHECK_THROWS_AS(freeze(1), core::Error);
  CHECK_NOTHROW(freeze(0));
  const model::Trains trains = freeze(12);
  CHECK(!trains("albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight"));
  CHECK(trains("predictions.dense.weight"));
}

TEST_CASE("what of an ALBERT would give other results is refused by name") {
  CHECK(refusal_of("use_cache", false) == "no error");
  CHECK(refusal_of("hidden_act", "gelu") == "no error");
  CHECK_THAT(refusal_of("hidden_act", "relu"), ContainsSubstring("hidden_act is \"relu\", but only \"gelu\""));
  CHECK_THAT(refusal_of("inner_group_num", 2), ContainsSubstring("inner_group_num"));
  CHECK_THAT(refusal_of("num_hidden_groups", 13), ContainsSubstring("num_hidden_groups is 13, but must be from 1 to"));
  CHECK_THAT(refusal_of("embedding_size", 0), ContainsSubstring("embedding_size"));
}
