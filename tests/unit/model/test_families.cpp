// ELECTRA, RoBERTa and Nomic BERT: their config.json, what of a plan is theirs, and the dropout before the dense layer
// of their head of sequences (their numbers without dropout are checked against Transformers in tests/golden, gradients
// in tests/gradient).
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a RoBERTa's positions begin after the row of its padding") {
  const model::ModelConfig base = model::parse_hf_config(
      R"({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1, "type_vocab_size": 1})", "x");
  CHECK(base.max_position_embeddings == 512);
  const layers::EmbeddingsSettings embeddings =
      layers::embeddings_settings(*model::make_plan(base, test::masked_lm_head, 2).input);
  CHECK(embeddings.first_position == 2);
  CHECK(embeddings.positions == 512);
  std::vector<core::ParameterSpec> specs;
  layers::Embeddings::declare(embeddings, specs);
  CHECK(specs[1].shape == std::vector<std::int64_t>{514, 768});
  CHECK(specs[1].zero_row == 1);
  model::ModelConfig own = base;  // with a vocabulary whose padding is 0
  own.pad_token_id = 0;
  const auto written = nlohmann::json::parse(model::hf_config_text(own, test::masked_lm_head));
  CHECK(written["max_position_embeddings"] == 513);
  CHECK(model::parse_hf_config(written.dump(), "x").max_position_embeddings == 512);
}

TEST_CASE("configurations of CamemBERT and XLM-RoBERTa are RoBERTa's under other names") {
  const std::string type = GENERATE("camembert", "xlm-roberta");
  const model::ModelConfig config = model::parse_hf_config(
      R"({"model_type": ")" + type + R"(", "max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 32005})",
      "x");
  CHECK(config.family == type);
  CHECK(config.pad_token_id == 1);
  CHECK(config.max_position_embeddings == 512);
  CHECK(model::default_config(type).vocab_size == 30522);
  const model::ModelPlan plan = model::make_plan(config, test::masked_lm_head, 2);
  CHECK(layers::embeddings_settings(*plan.input).first_position == 2);
  CHECK(layers::embeddings_settings(*plan.input).word == "roberta.embeddings.word_embeddings");
  CHECK(plan.head.bias == "lm_head.bias");
  const auto written = nlohmann::json::parse(model::hf_config_text(config, test::masked_lm_head));
  CHECK(written["model_type"] == type);
  CHECK(written["architectures"][0] == (type == "camembert" ? "CamembertForMaskedLM" : "XLMRobertaForMaskedLM"));
}

TEST_CASE("Nomic BERT's keys of both kinds make the same model, and what would give other results is refused") {
  const model::ModelConfig older = model::parse_hf_config(
      R"({"model_type": "nomic_bert", "n_embd": 24, "n_layer": 2, "n_head": 2, "n_inner": 40, "n_positions": 64,
          "activation_function": "swiglu", "rotary_emb_base": 500, "rotary_emb_fraction": 1.0, "qkv_proj_bias": false,
          "layer_norm_epsilon": 1e-6, "resid_pdrop": 0.2, "attn_pdrop": 0.0, "rotary_scaling_factor": null})",
      "x");
  const auto written = nlohmann::json::parse(model::hf_config_text(older, test::masked_lm_head));
  CHECK(written["architectures"][0] == "NomicBertForMaskedLM");
  CHECK(written["hidden_size"] == 24);
  CHECK(written["max_position_embeddings"] == 64);
  CHECK(written["rope_parameters"]["rope_theta"] == 500.0);
  CHECK(written["layer_norm_eps"] == 1e-6);
  const model::ModelConfig newer = model::parse_hf_config(written.dump(), "x");
  for (const model::ModelConfig& config : {older, newer}) {
    const model::ModelPlan plan = model::make_plan(config, test::classification_head, 3);
    const auto alike = layers::attention_sublayer({.heads = 2, .dropout = 0, .rotary_theta = 500});
    CHECK(plan.sublayers[0].kind->computes_like(*alike));
    CHECK(plan.sublayers[0].hidden_dropout == 0.2f);
    CHECK_FALSE(plan.sublayers[0].sum_out);
    CHECK(layers::embeddings_settings(*plan.input).positions == 0);
    CHECK(layers::embeddings_settings(*plan.input).types == 2);
    CHECK(plan.weights.source_of("nomic_bert.encoder.layers.1.attn.Wqkv.value.weight").first_row == 48);
  }
  CHECK(model::default_config("nomic_bert").max_position_embeddings == 2048);
  CHECK_THROWS_WITH(model::parse_hf_config(R"({"model_type": "nomic_bert", "n_embd": 24, "hidden_size": 48})", "x"),
                    ContainsSubstring("hidden_size is 48 and n_embd is 24"));
  CHECK_THROWS_WITH(model::parse_hf_config(R"({"model_type": "nomic_bert", "rotary_emb_base": 1000,
          "rope_parameters": {"rope_theta": 500, "rope_type": "linear"}})",
                                           "x"),
                    ContainsSubstring("rope_parameters.rope_type is \"linear\"") &&
                        ContainsSubstring("rotary_emb_base is 1000 and rope_parameters.rope_theta is 500"));
  CHECK_THROWS_WITH(model::parse_hf_config(R"({"model_type": "nomic_bert", "rotary_emb_fraction": 0.5, "prenorm": true,
          "rotary_scaling_factor": 2})",
                                           "x"),
                    ContainsSubstring("rotary_emb_fraction is not 1") && ContainsSubstring("prenorm is true") &&
                        ContainsSubstring("rotary_scaling_factor is set"));
}

TEST_CASE("an ELECTRA with embeddings of another size has a layer between, and a decoder of that size") {
  const std::string small = R"({"model_type": "electra", "hidden_size": 256, "vocab_size": 30})";
  const model::ModelConfig config = model::parse_hf_config(small, "x");
  CHECK(config.embedding_size == 128);  // as Transformers reads a file without the key
  const model::ModelPlan plan = model::make_plan(config, test::masked_lm_head, 2);
  CHECK(plan.input->hidden() == 256);
  CHECK(plan.input->most_columns() == 256);
  CHECK(plan.head.decoded() == 128);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const core::ParameterSpec& spec : model::model_parameters(config, test::masked_lm_head, 2)) {
    shapes[spec.name] = spec.shape;
  }
  using Shape = std::vector<std::int64_t>;
  CHECK(shapes.at("electra.embeddings.word_embeddings.weight") == Shape{30, 128});
  CHECK(shapes.at("electra.embeddings.LayerNorm.weight") == Shape{128});
  CHECK(shapes.at("electra.embeddings_project.weight") == Shape{256, 128});
  CHECK(shapes.at("electra.embeddings_project.bias") == Shape{256});
  CHECK(shapes.at("generator_predictions.dense.weight") == Shape{128, 256});
  CHECK(shapes.at("generator_predictions.LayerNorm.weight") == Shape{128});
  const auto written = nlohmann::json::parse(model::hf_config_text(config, test::masked_lm_head));
  CHECK(written["embedding_size"] == 128);
  const model::ModelConfig scratch = model::default_config("electra");
  CHECK(scratch.hidden_size == 256);
  CHECK(model::make_plan(scratch, test::masked_lm_head, 2).head.decoded() == 256);
  CHECK(nlohmann::json::parse(model::hf_config_text(scratch, test::masked_lm_head))["embedding_size"] == 256);
}

TEST_CASE("heads of sequences of ELECTRA and RoBERTa drop their input too") {
  const std::string family = GENERATE("electra", "roberta");
  model::ModelConfig config = model::default_config(family);
  model::encoder_settings(config).classifier_dropout = 0.5;
  const layers::HeadSettings own = model::make_plan(config, test::classification_head, 3).head;
  CHECK(own.input_dropout == 0.5f);
  CHECK(own.activation == (family == "electra" ? layers::Activation::gelu : layers::Activation::tanh));
  CHECK(model::make_plan(config, test::token_head, 3).head.input_dropout == 0.0f);
  CHECK(model::make_plan(config, test::masked_lm_head, 3).head.input_dropout == 0.0f);

  // Alone, without the classifier's dropout, whose zeros it does not share.
  layers::HeadSettings settings = own;
  settings.hidden = 32;
  settings.outputs = 3;
  settings.classifier_dropout = 0.0f;
  std::vector<core::ParameterSpec> specs;
  layers::declare_head(settings, specs);
  test::Arenas arenas;
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients, {}, arenas.memory());
  const auto fill = [&store](unsigned seed) {
    for (std::size_t s = 0; s < store.slices().size(); ++s) {
      const core::Tensor<float> value = store.change_value(static_cast<int>(s));
      const auto numbers = test::normal_numbers(store.slices()[s].size, seed + static_cast<unsigned>(s), 0.2f);
      std::copy(numbers.begin(), numbers.end(), value.data);
    }
  };
  fill(1);
  const auto products = ops::make_matrix_product();
  const auto attention = ops::make_attention();
  layers::Engine engine{*products, *attention};
  const auto head = layers::make_head(settings, store);
  for (layers::LinearWeight& weight : head->linear_weights()) products->reserve(weight.extents({.sequences = 4}));
  core::Workspace workspace;
  const auto saved = head->make_saved();
  head->allocate_saved(workspace, {4, 8}, *saved);
  workspace.allocate();
  head->allocate_saved(workspace, {4, 8}, *saved);
  test::HostBatch batch(std::vector<std::int32_t>(8, 1), std::vector<std::int32_t>(8, 0), {2, 2, 2, 2});
  const test::Matrix x = test::Matrix::random(4, 32, 7);
  core::Dropout key;
  ops::set_dropout_key(key, 3, 17);
  const core::MicroBatch view = batch.view();
  const auto logits = [&](bool training) {
    const layers::StepContext context{.batch = view, .training = training, .key0 = key.key0, .key1 = key.key1};
    head->forward(engine, context, x, *saved);
    return test::floats_of(saved->logits);
  };
  const std::vector<float> trained = logits(true), evaluated = logits(false);
  CHECK(logits(true) == trained);
  CHECK(trained != evaluated);
}

TEST_CASE("every row of a position table that gets a gradient is marked, wherever positions begin") {
  const std::int64_t first = GENERATE(0, 2);
  const layers::EmbeddingsSettings settings{.vocabulary = 23,
                                            .positions = 12,
                                            .types = 1,
                                            .hidden = 32,
                                            .first_position = first,
                                            .hidden_dropout = 0.0f,
                                            .lookup_only = true};
  std::vector<core::ParameterSpec> specs;
  layers::Embeddings::declare(settings, specs);
  test::Arenas arenas;
  core::ParameterStore::Memory memory = arenas.memory();
  memory.zero_lines = true;
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients, {}, memory);
  const auto numbers = test::normal_numbers(std::ssize(store.values()), 1, 0.5f);
  core::copy_to_device(std::span<const float>(numbers), store.change_values());
  const layers::Embeddings embeddings(settings, store);
  core::Workspace workspace;
  const auto of_micro_batch = embeddings.make_saved();
  layers::Input::SavedActivations& saved = *of_micro_batch;
  embeddings.allocate_saved(workspace, 8, saved);
  workspace.allocate();
  embeddings.allocate_saved(workspace, 8, saved);
  test::HostBatch batch({1, 2, 3, 4, 5, 6, 7, 8}, std::vector<std::int32_t>(8, 0), {5, 3});
  const core::MicroBatch view = batch.view();
  const layers::StepContext context{.batch = view, .training = true};
  const auto products = ops::make_matrix_product(test::independent_products());
  const auto attention = ops::make_attention();
  layers::Engine engine{*products, *attention};
  embeddings.forward(engine, context, saved);
  test::Matrix d_y = test::Matrix::random(8, 32, 2);
  embeddings.backward_weight(engine, context, saved, layers::StreamGradient(d_y));
  const int positions = store.find("position.weight");
  const core::Tensor<float> gradient = store.gradient(positions);
  constexpr std::int64_t lines_of_row = 32 / core::floats_of_cache_line;
  for (std::int64_t row = 0; row < gradient.rows; ++row) {
    const bool touched = row >= first && row < first + 5;
    INFO("row " << row);
    CHECK((gradient(row, 0) != 0.0f) == touched);
    for (std::int64_t line = 0; line < lines_of_row; ++line) {
      CHECK((store.marks_of(positions)[row * lines_of_row + line] != 0) == touched);
    }
  }
}
