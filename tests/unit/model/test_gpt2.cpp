// GPT-2: its config.json, what of a plan is a decoder's, and folders, old ones with buffers and without prefix included
// (its numbers are checked against Transformers in tests/golden).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/low_rank.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/model/peft_adapter.hpp"
#include "support/heads.hpp"
#include "support/safetensors_file.hpp"
#include "support/vector.hpp"
#include "unit/model/files.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using test::failure_of;

namespace {

// As the config.json of gpt2, with other sizes.
const char* const config_text = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 22,
  "embd_pdrop": 0.2, "eos_token_id": 22, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2",
  "n_ctx": 12, "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 12, "resid_pdrop": 0.3,
  "summary_activation": null, "summary_type": "cls_index", "vocab_size": 23})";

model::ModelConfig config() {
  return model::parse_hf_config(config_text, "config.json");
}

}  // namespace

TEST_CASE("a config.json of GPT-2 is read and written") {
  const model::ModelConfig read = config();
  CHECK(read.hidden_size == 24);
  CHECK(read.intermediate_size == 96);
  CHECK(read.max_position_embeddings == 12);
  CHECK(read.type_vocab_size == 0);
  CHECK(read.pad_token_id == model::no_token);
  CHECK(model::encoder_settings(read).hidden_dropout_prob == 0.3);
  CHECK(model::encoder_settings(read).embedding_dropout == 0.2);
  const auto written = nlohmann::json::parse(model::hf_config_text(read, test::classification_head));
  CHECK(written["architectures"][0] == "GPT2ForSequenceClassification");
  CHECK_FALSE(written.contains("pad_token_id"));
  const auto given = nlohmann::json::parse(config_text);
  for (const char* const key : {"activation_function", "attn_pdrop", "embd_pdrop", "resid_pdrop", "n_embd", "n_layer",
                                "n_head", "n_positions", "vocab_size", "eos_token_id", "layer_norm_epsilon"}) {
    INFO(key);
    CHECK(written[key] == given[key]);
  }
  model::ModelConfig changed = read;
  CHECK(model::set_own_number(changed, "hidden_dropout_prob", 0.5));
  CHECK(layers::embeddings_settings(*model::make_plan(changed, test::classification_head, 2).input).hidden_dropout ==
        0.5f);
  CHECK_FALSE(model::set_own_number(changed, "dropconnect", 0.5));
}

TEST_CASE("what GPT-2 has and is not built in is refused by its key") {
  const auto refusal = [](const std::string& more) {
    return failure_of([&] { model::parse_hf_config(R"({"model_type": "gpt2", )" + more + '}', "x"); }).message;
  };
  CHECK_THAT(refusal(R"("activation_function": "relu")"), ContainsSubstring("activation_function is \"relu\""));
  CHECK_THAT(refusal(R"("scale_attn_by_inverse_layer_idx": true)"), ContainsSubstring("scale_attn_by_inverse"));
  CHECK_THAT(refusal(R"("scale_attn_weights": false)"), ContainsSubstring("scale_attn_weights"));
  CHECK_THAT(refusal(R"("n_embd": 24, "hidden_size": 48)"),
             ContainsSubstring("n_embd is 24 and hidden_size is 48, but they are two names of one number"));
  CHECK(
      model::parse_hf_config(R"({"model_type": "gpt2", "hidden_size": 48, "n_head": 4, "num_attention_heads": 4})", "x")
          .hidden_size == 48);
}

TEST_CASE("tasks that predict tokens are refused where attention shows or hides these tokens") {
  const std::string masked = failure_of([] { model::make_plan(config(), test::masked_lm_head, 2); }).message;
  CHECK_THAT(masked, ContainsSubstring("masked_lm\" does not fit the model family \"gpt2\""));
  CHECK_THAT(masked, ContainsSubstring("use the task \"causal_lm\", or a model of family \"bert\""));
  const std::string causal = failure_of([] { model::make_plan({}, test::causal_lm_head, 2); }).message;
  CHECK_THAT(causal, ContainsSubstring("causal_lm\" does not fit the model family \"bert\""));
  CHECK_THAT(causal, ContainsSubstring("use the task \"masked_lm\", or a model of family \"gpt2\"."));
}

TEST_CASE("GPT-2's head for next tokens is its word embeddings alone") {
  const model::ModelPlan plan = model::make_plan(config(), test::causal_lm_head, 2);
  CHECK(plan.weights.tied() == "lm_head.weight");
  std::vector<core::ParameterSpec> specs;
  layers::declare_head(model::head_of(plan, model::whole(plan)), specs);
  CHECK(specs.empty());
  model::ModelRange last = model::whole(plan);
  last.embeddings = false;
  layers::declare_head(model::head_of(plan, last), specs);
  REQUIRE(specs.size() == 1);
  CHECK(specs[0].name == "lm_head.weight");
  CHECK(specs[0].copy_of == "transformer.wte.weight");
  CHECK(model::hf_config_text(config(), test::causal_lm_head).find("GPT2LMHeadModel") != std::string::npos);
}

TEST_CASE("a plan of GPT-2 is causal and pre-norm, with a final norm and a head that reads last tokens") {
  const model::ModelPlan plan = model::make_plan(config(), test::classification_head, 3);
  const layers::EmbeddingsSettings& embeddings = layers::embeddings_settings(*plan.input);
  CHECK(embeddings.norm == "transformer.h.0.ln_1");
  CHECK(embeddings.sum_out);
  CHECK(embeddings.hidden_dropout == 0.2f);
  std::vector<std::string> norms;
  for (const layers::SublayerSettings& sublayer : plan.sublayers) norms.push_back(sublayer.norm);
  CHECK(norms == std::vector<std::string>{"transformer.h.0.ln_2", "transformer.h.1.ln_1", "transformer.h.1.ln_2",
                                          "transformer.ln_f"});
  CHECK(plan.hands_on_sum(3));
  CHECK_FALSE(plan.hands_on_sum(4));
  const auto alike = layers::attention_sublayer({.heads = 3, .mask = ops::AttentionMask::causal()});
  CHECK(plan.sublayers[0].kind->computes_like(*alike));
  CHECK(plan.head.token == layers::SequenceToken::last);
  std::vector<core::ParameterSpec> head;
  layers::declare_head(plan.head, head);
  REQUIRE(head.size() == 1);
  CHECK(head[0].name == "score.weight");
  CHECK(model::make_plan(config(), test::token_head, 3).head.token == layers::SequenceToken::first);
  model::ModelConfig exact = config();
  model::encoder_settings(exact).hidden_act = "gelu";
  CHECK_FALSE(
      model::make_plan(exact, test::classification_head, 3).sublayers[1].kind->computes_like(*plan.sublayers[1].kind));
}

TEST_CASE("folders of GPT-2 are written and read, also those of the bare model with its buffers") {
  const test::ScratchFolder folder;
  const model::ModelConfig own = config();
  const model::ModelPlan plan = model::make_plan(own, test::classification_head, 2);
  const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan));
  core::ParameterStore store(specs, core::ParameterStore::Arenas::values),
      read(specs, core::ParameterStore::Arenas::values), bare(specs, core::ParameterStore::Arenas::values);
  model::initialize_parameters(store, own, 3);
  model::save_hf_folder(folder / "model", own, test::classification_head, store);
  model::LoadOptions options = {.family = "gpt2", .weights = plan.weights};
  CHECK(model::load_hf_weights(folder / "model", read, options).text().empty());
  CHECK(test::copy_of(read.values()) == test::copy_of(store.values()));
  const model::SafetensorsFile file(folder / "model/model.safetensors");
  REQUIRE(file.find("transformer.h.1.attn.c_attn.weight") != nullptr);
  CHECK(file.find("transformer.h.1.attn.c_attn.weight")->shape == std::vector<std::int64_t>{24, 72});
  CHECK(file.find("transformer.h.1.mlp.c_proj.weight")->shape == std::vector<std::int64_t>{96, 24});

  std::vector<model::TensorToWrite> tensors;
  std::vector<std::vector<float>> values;
  values.reserve(file.tensors().size());
  for (const model::StoredTensor& tensor : file.tensors()) {
    if (!tensor.name.starts_with("transformer.")) continue;
    values.emplace_back(static_cast<std::size_t>(tensor.elements));
    file.read(tensor, values.back());
    tensors.push_back({.name = tensor.name.substr(12), .shape = tensor.shape, .values = values.back()});
  }
  const std::vector<float> mask(4, 1.0f), one(1, -1e4f);
  tensors.push_back({.name = "h.0.attn.bias", .shape = {1, 1, 2, 2}, .values = mask});
  tensors.push_back({.name = "h.0.attn.masked_bias", .shape = {1}, .values = one});
  std::filesystem::create_directories(folder / "bare");
  test::write_safetensors(folder / "bare/model.safetensors", std::move(tensors), {});
  options.may_be_missing = model::head_prefixes(test::classification_head, "gpt2");
  const model::LoadReport report = model::load_hf_weights(folder / "bare", bare, options);
  CHECK(report.newly_initialised == std::vector<std::string>{"score.weight"});
  CHECK(report.unused.empty());
}

TEST_CASE("a folder of GPT2LMHeadModel may hold its decoder, if it is the tied one") {
  const test::ScratchFolder folder;
  const model::ModelConfig own = config();
  const model::ModelPlan plan = model::make_plan(own, test::causal_lm_head, 2);
  const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan));
  core::ParameterStore store(specs, core::ParameterStore::Arenas::values),
      read(specs, core::ParameterStore::Arenas::values);
  model::initialize_parameters(store, own, 3);
  model::save_hf_folder(folder / "model", own, test::causal_lm_head, store);
  const model::LoadOptions options = {.family = "gpt2", .weights = plan.weights};
  CHECK(model::load_hf_weights(folder / "model", read, options).text().empty());
  CHECK(test::copy_of(read.values()) == test::copy_of(store.values()));

  const model::SafetensorsFile file(folder / "model/model.safetensors");
  CHECK(file.find("lm_head.weight") == nullptr);
  std::vector<std::vector<float>> values;
  values.reserve(file.tensors().size() + 1);
  const auto write = [&](const std::string& name, float off) {
    std::vector<model::TensorToWrite> tensors;
    values.clear();
    for (const model::StoredTensor& tensor : file.tensors()) {
      values.emplace_back(static_cast<std::size_t>(tensor.elements));
      file.read(tensor, values.back());
      tensors.push_back({.name = tensor.name, .shape = tensor.shape, .values = values.back()});
      if (tensor.name != "transformer.wte.weight") continue;
      values.push_back(values.back());
      values.back()[7] += off;
      tensors.push_back({.name = "lm_head.weight", .shape = tensor.shape, .values = values.back()});
    }
    std::filesystem::create_directories(folder / name);
    test::write_safetensors(folder / name / "model.safetensors", std::move(tensors), {});
  };
  write("tied", 0);
  CHECK(model::load_hf_weights(folder / "tied", read, options).text().empty());
  write("untied", 1);
  CHECK_THAT(failure_of([&] { model::load_hf_weights(folder / "untied", read, options); }).message,
             ContainsSubstring("\"lm_head.weight\" in model.safetensors differs from transformer.wte.weight"));
  // A classifier reads neither: its own layer is missing.
  const model::ModelPlan other = model::make_plan(own, test::classification_head, 2);
  core::ParameterStore classifier(model::model_parameters(other, model::whole(other)),
                                  core::ParameterStore::Arenas::values);
  CHECK_THAT(failure_of([&] {
               model::load_hf_weights(folder / "model", classifier, {.family = "gpt2", .weights = other.weights});
             }).message,
             ContainsSubstring("It holds a language model, which has no classifier yet"));
}

TEST_CASE("adapters of GPT-2 stand beside layers that files store alone") {
  model::ModelPlan plan = model::make_plan(config(), test::classification_head, 2);
  model::add_adapters(plan, {.rank = 2, .targets = {"mlp.c_proj", "c_fc"}}, 0);
  CHECK(model::target_modules(plan) == std::vector<std::string>{"mlp.c_fc", "mlp.c_proj"});
  CHECK_THAT(failure_of([] {
               model::ModelPlan other = model::make_plan(config(), test::classification_head, 2);
               model::add_adapters(other, {.rank = 2, .targets = {"query"}}, 0);
             }).message,
             ContainsSubstring("there is no linear layer \"query\" in this model's blocks"));
}

TEST_CASE("the joint layer of GPT-2 has one adapter, which PEFT's files hold as one") {
  const test::ScratchFolder folder;
  model::ModelPlan plan = model::make_plan(config(), test::causal_lm_head, 2);
  model::add_adapters(plan, {.rank = 2, .magnitudes = true}, 1);
  CHECK(plan.low_rank->targets == std::vector<std::string>{"attn.c_attn"});
  CHECK(model::target_modules(plan) == std::vector<std::string>{"transformer.h.1.attn.c_attn"});
  const std::string joint = "transformer.h.1.attn.c_attn";
  std::vector<std::string> names;
  const std::vector<core::ParameterSpec> specs = model::model_parameters(plan, model::whole(plan));
  for (const core::ParameterSpec& spec : specs) {
    if (spec.adapter) names.push_back(spec.name);
  }
  CHECK(names == std::vector<std::string>{joint + ".lora_A.weight", joint + ".query.lora_B.weight",
                                          joint + ".key.lora_B.weight", joint + ".value.lora_B.weight",
                                          joint + ".query.lora_magnitude_vector", joint + ".key.lora_magnitude_vector",
                                          joint + ".value.lora_magnitude_vector"});
  // Written and read again: rows of b and of the magnitudes in the order query, key, value.
  core::ParameterStore store(specs, core::ParameterStore::Arenas::values),
      read(specs, core::ParameterStore::Arenas::values);
  std::vector<float> numbers(store.change_values().size());
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  core::copy_to_device(std::span<const float>(numbers), store.change_values());
  const model::WeightTable table = model::peft_table(names, plan.weights);
  std::sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return table.is_before(a, b); });
  std::vector<model::TensorToWrite> tensors;
  for (const std::string& name : names) {
    const core::ParameterSlice& slice = store.slices()[static_cast<std::size_t>(store.find(name))];
    const auto begin = static_cast<std::size_t>(slice.offset), size = static_cast<std::size_t>(slice.size);
    tensors.push_back({.name = name, .shape = slice.shape, .values = std::span(numbers).subspan(begin, size)});
  }
  model::AdapterFacts facts;
  facts.settings = *plan.low_rank;
  facts.stored_transposed = true;
  model::save_peft_adapter(folder / "adapter", facts, model::as_stored(std::move(tensors), table));
  const model::SafetensorsFile file(folder / "adapter/adapter_model.safetensors");
  CHECK(file.tensors().size() == 3);
  const std::string prefix = "base_model.model." + joint;
  REQUIRE(file.find(prefix + ".lora_B.weight") != nullptr);
  CHECK(file.find(prefix + ".lora_B.weight")->shape == std::vector<std::int64_t>{72, 2});
  CHECK(file.find(prefix + ".lora_magnitude_vector")->shape == std::vector<std::int64_t>{72});
  const model::PeftAdapter adapter(folder / "adapter", "gpt2");
  adapter.check(specs, plan.weights);
  adapter.load(read, plan.weights);
  for (const std::string& name : names) {
    const core::Tensor<const float> mine = store.value(store.find(name)), theirs = read.value(read.find(name));
    CHECK(test::copy_of(mine.data, mine.size()) == test::copy_of(theirs.data, theirs.size()));
  }
}
