// DistilBERT: its config.json and names of weights, and its numbers, which are those of a BERT whose token types are
// zero, bit for bit (BERT's are checked against Transformers in tests/golden; gradients of DistilBERT's own head in
// tests/gradient).
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/stage.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "unit/model/files.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

// The config.json of distilbert-base-uncased with other sizes.
const char* const config_text = R"({
  "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 24, "dropout": 0.3,
  "hidden_dim": 40, "initializer_range": 0.02, "max_position_embeddings": 12, "model_type": "distilbert", "n_heads": 3,
  "n_layers": 2, "pad_token_id": 0, "qa_dropout": 0.1, "seq_classif_dropout": 0.25, "sinusoidal_pos_embds": false,
  "tie_weights_": true, "transformers_version": "4.10.0.dev0", "vocab_size": 23})";

model::ModelConfig small(const std::string& family) {
  model::ModelConfig config = model::parse_hf_config(config_text, "config.json");
  model::encoder_settings(config).hidden_dropout_prob = model::encoder_settings(config).attention_probs_dropout_prob =
      0.0;
  config.family = family;
  config.type_vocab_size = family == "bert" ? 2 : 0;
  return config;
}

struct Model {
  explicit Model(const model::ModelConfig& model_config)
      : config(model_config),
        store(model::model_parameters(config, test::masked_lm_head, 2), core::ParameterStore::Arenas::with_gradients,
              {}, arenas.memory()),
        stage(config, test::masked_lm_head, 2, model::whole(config), store),
        products(ops::make_matrix_product(test::independent_products())),
        attention(ops::make_attention()) {
    const layers::BatchBounds bounds{.tokens = 16, .sequences = 3, .max_length = 12, .selected = 4};
    stage.plan(workspace, bounds, {});
    workspace.allocate();
    for (const ops::ProductExtents& e : model::product_extents({&stage, 1}, bounds)) products->reserve(e);
    attention->reserve(12, config.head_dim());
  }

  std::vector<float> train(const core::MicroBatch& batch) {
    layers::Engine engine{*products, *attention};
    const layers::StepContext context{.batch = batch, .training = true};
    stage.open(workspace, context);
    stage.forward(engine, context);
    stage.loss(context, 0.5f);
    const std::vector<float> losses = test::copy_of(stage.row_losses(), batch.targets.rows.count);
    stage.backward(engine, context, workspace, [](std::int64_t) {});
    return losses;
  }

  std::vector<float> gradient(std::size_t slice) const {
    return test::copy_of(store.gradient(static_cast<int>(slice)).data, store.slices()[slice].size);
  }

  model::ModelConfig config;
  test::Arenas arenas;
  core::ParameterStore store;
  model::Stage stage;
  std::unique_ptr<ops::MatrixProduct> products;
  std::unique_ptr<ops::Attention> attention;
  core::Workspace workspace;
};

}  // namespace

TEST_CASE("DistilBERT's config.json is read, and written as Transformers reads it") {
  const model::ModelConfig config = model::parse_hf_config(config_text, "config.json");
  CHECK(config.family == "distilbert");
  CHECK(config.hidden_size == 24);
  CHECK(config.num_hidden_layers == 2);
  CHECK(config.num_attention_heads == 3);
  CHECK(config.intermediate_size == 40);
  CHECK(config.type_vocab_size == 0);
  CHECK(model::encoder_settings(config).hidden_dropout_prob == 0.3);
  CHECK(model::encoder_settings(config).head_dropout() == 0.25);
  const auto theirs = nlohmann::json::parse(config_text);
  const auto ours = nlohmann::json::parse(model::hf_config_text(config, test::masked_lm_head));
  for (const auto& [key, value] : theirs.items()) {
    if (key == "transformers_version" || key == "qa_dropout") continue;
    INFO(key);
    REQUIRE(ours.contains(key));
    CHECK(ours[key] == value);
  }
  CHECK(model::default_config("distilbert").num_hidden_layers == 6);
  CHECK_THROWS_WITH(model::parse_hf_config(R"({"model_type": "distilbert", "sinusoidal_pos_embds": true})", "x"),
                    ContainsSubstring("sinusoidal_pos_embds"));
  model::ModelConfig typed = config;
  typed.type_vocab_size = 2;
  core::ProblemList problems;
  model::check_model(typed, problems);
  CHECK(!problems.empty());
}

TEST_CASE("DistilBERT gives the results of a BERT with zero token types") {
  Model bert(small("bert")), distilbert(small("distilbert"));
  model::initialize_parameters(bert.store, bert.config, 3);
  // The same parameters in the same order, but for the token types.
  std::vector<std::size_t> counterpart;
  for (std::size_t i = 0; i < bert.store.slices().size(); ++i) {
    const core::Tensor<float> value = bert.store.change_value(static_cast<int>(i));
    const std::int64_t size = bert.store.slices()[i].size;
    if (bert.store.slices()[i].name == "bert.embeddings.token_type_embeddings.weight") {
      std::fill_n(value.data, size, 0.0f);
      continue;
    }
    const auto other = static_cast<int>(counterpart.size());
    REQUIRE(distilbert.store.slices()[counterpart.size()].shape == bert.store.slices()[i].shape);
    std::copy_n(value.data, size, distilbert.store.change_value(other).data);
    counterpart.push_back(i);
  }
  REQUIRE(counterpart.size() == distilbert.store.slices().size());
  test::HostBatch batch({4, 1, 2, 7, 22, 9, 3, 3, 4, 6}, {0, 0, 1, 1, 0, 0, 0, 1, 0, 1}, {4, 1, 5});
  batch.set_masked({1, 4, 8}, {5, 9, 22});
  CHECK(distilbert.train(batch.view(true)) == bert.train(batch.view(true)));
  for (std::size_t i = 0; i < counterpart.size(); ++i) {
    INFO(distilbert.store.slices()[i].name);
    CHECK(distilbert.gradient(i) == bert.gradient(counterpart[i]));
  }
}

TEST_CASE("DistilBERT has dropout after the feed-forward, not after attention's output, and a ReLU in its head") {
  model::ModelConfig config = model::parse_hf_config(config_text, "config.json");
  const model::ModelPlan plan = model::make_plan(config, test::classification_head, 3);
  CHECK(plan.sublayers[0].hidden_dropout == 0.0f);
  CHECK(plan.sublayers[1].hidden_dropout == 0.3f);
  CHECK(plan.head.activation == layers::Activation::relu);
  CHECK(plan.head.classifier_dropout == 0.25f);
}

TEST_CASE("folders of DistilBERT are written and read, also those of a bare encoder") {
  const test::ScratchFolder folder;
  const model::ModelConfig config = small("distilbert");
  const std::vector<core::ParameterSpec> specs = model::model_parameters(config, test::masked_lm_head, 2);
  core::ParameterStore store(specs, core::ParameterStore::Arenas::values),
      read(specs, core::ParameterStore::Arenas::values);
  model::initialize_parameters(store, config, 3);
  model::save_hf_folder(folder / "model", config, test::masked_lm_head, store);
  CHECK(model::read_hf_config(folder / "model").family == "distilbert");
  const model::LoadReport report = model::load_hf_weights(folder / "model", read, {.family = "distilbert"});
  CHECK(report.newly_initialised.empty());
  CHECK(report.unused.empty());
  CHECK(test::copy_of(read.values()) == test::copy_of(store.values()));
  const model::SafetensorsFile file(folder / "model/model.safetensors");
  for (const char* name :
       {"distilbert.embeddings.word_embeddings.weight", "distilbert.transformer.layer.1.attention.q_lin.weight",
        "distilbert.transformer.layer.1.sa_layer_norm.bias", "distilbert.transformer.layer.1.ffn.lin2.weight",
        "distilbert.transformer.layer.0.output_layer_norm.weight", "vocab_transform.bias", "vocab_layer_norm.weight",
        "vocab_projector.bias"}) {
    INFO(name);
    CHECK(file.find(name) != nullptr);
  }
  CHECK(file.tensors().size() == specs.size());
  // A classifier from the masked language model: only its head is new.
  const auto classifier = model::model_parameters(config, test::classification_head, 2);
  const model::LoadReport fresh = model::check_hf_weights(
      folder / "model", classifier,
      {.may_be_missing = model::head_prefixes(test::classification_head, "distilbert"), .family = "distilbert"});
  CHECK(fresh.newly_initialised == std::vector<std::string>{"pre_classifier.weight", "pre_classifier.bias",
                                                            "classifier.weight", "classifier.bias"});
}
