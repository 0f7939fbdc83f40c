// ELECTRA and RoBERTa: their config.json, what of a plan is theirs, and the dropout before the dense layer of their
// head of sequences (their numbers without dropout are checked against Transformers in tests/golden, gradients in
// tests/gradient).
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "bert_hpc/model/hf_config.hpp"
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
  const layers::EmbeddingsSettings embeddings = model::make_plan(base, tests::masked_lm_head, 2).embeddings;
  CHECK(embeddings.first_position == 2);
  CHECK(embeddings.positions == 512);
  std::vector<core::ParameterSpec> specs;
  layers::Embeddings::declare(embeddings, specs);
  CHECK(specs[1].shape == std::vector<std::int64_t>{514, 768});
  CHECK(specs[1].zero_row == 1);
  model::ModelConfig own = base;  // with a vocabulary whose padding is 0
  own.pad_token_id = 0;
  const auto written = nlohmann::json::parse(model::hf_config_text(own, tests::masked_lm_head));
  CHECK(written["max_position_embeddings"] == 513);
  CHECK(model::parse_hf_config(written.dump(), "x").max_position_embeddings == 512);
}

TEST_CASE("an ELECTRA with smaller embeddings is refused, with what would do") {
  const std::string small = R"({"model_type": "electra", "hidden_size": 256, "embedding_size": 128})";
  CHECK_THROWS_WITH(model::parse_hf_config(small, "x"), ContainsSubstring("embedding_size is 128, but only 256") &&
                                                            ContainsSubstring("base and the large"));
  CHECK(model::default_config("electra").hidden_size == 256);
}

TEST_CASE("heads of sequences of ELECTRA and RoBERTa drop their input too") {
  const std::string family = GENERATE("electra", "roberta");
  model::ModelConfig config = model::default_config(family);
  config.classifier_dropout = 0.5;
  const layers::HeadSettings own = model::make_plan(config, tests::classification_head, 3).head;
  CHECK(own.input_dropout == 0.5f);
  CHECK(own.activation == (family == "electra" ? layers::Activation::gelu : layers::Activation::tanh));
  CHECK(model::make_plan(config, tests::token_head, 3).head.input_dropout == 0.0f);
  CHECK(model::make_plan(config, tests::masked_lm_head, 3).head.input_dropout == 0.0f);

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
  head->allocate_saved(workspace, 4, *saved);
  workspace.allocate();
  head->allocate_saved(workspace, 4, *saved);
  tests::HostBatch batch(std::vector<std::int32_t>(8, 1), std::vector<std::int32_t>(8, 0), {2, 2, 2, 2});
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
