// Gradients of whole models (embeddings, blocks with and without selection, every head) against central differences
// along random directions: (L(p + h·u) − L(p − h·u)) / 2h against ⟨∂L/∂p, u⟩, per parameter tensor. L is a weighted sum
// of row losses in double.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <random>

#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "support/deberta_config.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "support/pre_norm.hpp"

using namespace bert_hpc;

namespace {

// Made of BERT's plan.
const std::string pre_norm = "pre-norm", no_biases = "pre-norm, causal, without biases";
const std::string mean_modernbert = "modernbert, mean";
const std::string shared_eurobert = "eurobert, shared heads";  // of keys and values
const std::string small_electra = "electra, smaller embeddings", wide_electra = "electra, wider embeddings";
// With kernels that begin the gradients of vectors, as on GPUs.
const std::string fused_gpt2 = "gpt2, fused";

model::ModelConfig small_bilstm(double dropout) {
  model::ModelConfig config = model::default_config("bilstm");
  config.vocab_size = 23;
  config.embedding_size = 16;
  config.hidden_size = 12;
  for (const char* const key : {"hidden_dropout_prob", "classifier_dropout"}) {
    REQUIRE(model::set_own_number(config, key, dropout));
  }
  config.initializer_range = 0.3;
  return config;
}

/// Sizes of models with attention, and initial values that are large enough that no gradient drowns in rounding.
void make_small(model::ModelConfig& config) {
  config.vocab_size = 23;
  config.hidden_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.intermediate_size = 40;
  config.max_position_embeddings = 12;
  config.initializer_range = 0.3;
}

/// Three layers: the second attends to a window of three tokens.
model::ModelConfig small_modernbert(const std::string& family, double dropout) {
  model::ModelConfig config = model::default_config("modernbert");
  make_small(config);
  config.num_hidden_layers = 3;
  for (const auto& [key, value] :
       {std::pair("attention_probs_dropout_prob", dropout), std::pair("attention_output_dropout", dropout),
        std::pair("embedding_dropout", dropout), std::pair("classifier_dropout", dropout),
        std::pair("local_attention", 2.0), std::pair("global_attn_every_n_layers", 2.0)}) {
    REQUIRE(model::set_own_number(config, key, value));
  }
  config.pad_token_id = model::no_token;  // a layer norm of its row of zeros is too steep for differences
  if (family == mean_modernbert) REQUIRE(model::set_own_word(config, "pooling", "mean"));
  return config;
}

/// Its batch has two mask tokens.
constexpr std::int32_t esm_mask = 3;

model::ModelConfig small_esm(double dropout) {
  model::ModelConfig config = model::default_config("esm");
  make_small(config);
  config.mask_token_id = esm_mask;
  for (const char* const key : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) {
    REQUIRE(model::set_own_number(config, key, dropout));
  }
  config.pad_token_id = model::no_token;  // as in small_modernbert()
  return config;
}

model::ModelConfig small_eurobert(const std::string& family, double dropout) {
  model::ModelConfig config = model::default_config("eurobert");
  make_small(config);
  config.pad_token_id = model::no_token;  // as in small_modernbert()
  REQUIRE(model::set_own_number(config, "attention_probs_dropout_prob", dropout));
  if (family == shared_eurobert) {
    REQUIRE(model::set_own_number(config, "num_key_value_heads", 1));
    return config;
  }
  REQUIRE(model::set_own_word(config, "pooling", family.substr(family.find(',') + 2)));
  return config;
}

model::ModelConfig small_deberta(double dropout) {
  model::ModelConfig config = test::deberta_config();
  make_small(config);
  config.pad_token_id = model::no_token;  // as in small_modernbert()
  for (const char* const key : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) {
    REQUIRE(model::set_own_number(config, key, dropout));
  }
  return config;
}

model::ModelConfig small_config(const std::string& family, double dropout) {
  if (family == "bilstm") return small_bilstm(dropout);
  if (family.starts_with("modernbert")) return small_modernbert(family, dropout);
  if (family == "esm") return small_esm(dropout);
  if (family == "deberta") return small_deberta(dropout);
  if (family.starts_with("eurobert")) return small_eurobert(family, dropout);
  model::ModelConfig config;
  config.family = family.starts_with(pre_norm) ? "bert" : family.substr(0, family.find(','));
  if (config.family == "gpt2") {
    config.type_vocab_size = 0;
    model::encoder_settings(config).hidden_act = "gelu_new";
  }
  make_small(config);
  if (family == small_electra) config.embedding_size = 10;
  if (family == wide_electra) config.embedding_size = 32;
  model::encoder_settings(config).hidden_dropout_prob = model::encoder_settings(config).attention_probs_dropout_prob =
      model::encoder_settings(config).span_dropout = dropout;
  return config;
}

/// A head with its outputs, and whether a loss of answer_ranking is that of whole queries, one of regression that of
/// predictions within a range.
struct Case {
  model::HeadKind kind;
  std::int64_t outputs = 5;
  bool lists = false, bounded = false;
};

struct Fixture {
  Fixture(const Case& head, const std::string& family, double dropout)
      : kind(head.kind),
        outputs(head.outputs),
        config(small_config(family, dropout)),
        plan(plan_of(*this, family)),
        store(model::model_parameters(plan, model::whole(plan)), core::ParameterStore::Arenas::with_gradients, {},
              arenas.memory()),
        bert(plan, model::whole(plan), store, {}, family == fused_gpt2),
        products(ops::make_matrix_product()),
        attention(ops::make_attention()) {
    model::initialize_parameters(store, config, 5);
    const layers::BatchBounds bounds{.tokens = 64, .sequences = 8, .max_length = 12, .selected = 64};
    bert.plan(workspace, bounds, {});
    workspace.allocate();
    for (const ops::ProductExtents& e : model::product_extents({&bert, 1}, bounds)) products->reserve(e);
    attention->reserve(12, config.head_dim(), plan.has_relative_positions());
    for (const layers::LinearWeight& weight : bert.linear_weights()) {
      layers::plan_scratch(weight, bounds, core::DataType::fp32, scratch);
    }
    scratch.allocate();
  }

  static model::ModelPlan plan_of(const Fixture& fixture, const std::string& family) {
    model::ModelPlan plan = model::make_plan(fixture.config, fixture.kind, fixture.outputs);
    if (!family.starts_with(pre_norm)) return plan;
    plan = test::pre_norm(std::move(plan));
    if (family == pre_norm) return plan;
    layers::change_embeddings(
        plan.input, [](layers::EmbeddingsSettings& input) { input.norm_kind = layers::NormKind::layer_without_bias; });
    for (layers::SublayerSettings& sublayer : plan.sublayers) {
      sublayer.biases = false;
      sublayer.norm_kind = layers::NormKind::layer_without_bias;
    }
    return test::causal(std::move(plan), fixture.config);
  }

  double loss(const core::MicroBatch& batch, bool backward) {
    layers::Engine engine{.products = *products, .attention = *attention, .scratch = &scratch};
    core::Dropout key;
    ops::set_dropout_key(key, 3, 17);
    const layers::StepContext context{.batch = batch, .training = true, .key0 = key.key0, .key1 = key.key1};
    bert.open(workspace, context);
    bert.forward(engine, context);
    bert.loss(context, 0.5f);
    double sum = 0;
    for (const float row : test::copy_of(bert.row_losses(), batch.targets.rows.count)) sum += 0.5 * row;
    if (backward) bert.backward(engine, context, workspace, [](std::int64_t) {});
    return sum;
  }

  model::HeadKind kind;
  std::int64_t outputs;
  model::ModelConfig config;
  model::ModelPlan plan;
  test::Arenas arenas;
  core::ParameterStore store;
  model::Stage bert;
  std::unique_ptr<ops::MatrixProduct> products;
  std::unique_ptr<ops::Attention> attention;
  core::Workspace workspace, scratch;
};

}  // namespace

TEST_CASE("gradients of every parameter agree with central differences") {
  const model::HeadKind ranking_head = objectives::named("answer_ranking").head;
  const auto head =
      GENERATE_REF(Case{test::classification_head}, Case{test::masked_lm_head}, Case{test::causal_lm_head},
                   Case{test::token_head}, Case{test::span_head}, Case{ranking_head, 1}, Case{ranking_head, 1, true},
                   Case{objectives::named("regression").head, 1, false, true});
  const model::HeadKind& kind = head.kind;
  const double dropout = GENERATE(0.0, 0.2);
  const auto family = GENERATE(as<std::string>{}, "bert", "distilbert", "roberta", "electra", "gpt2", fused_gpt2,
                               pre_norm, no_biases, "modernbert", mean_modernbert, "esm", "deberta", "eurobert, late",
                               "eurobert, mean", shared_eurobert, small_electra, wide_electra, "bilstm");
  if (kind.predicts_tokens && (family == "bilstm" || family.starts_with("gpt2") != kind.predicts_next_tokens)) return;
  Fixture fixture(head, family, dropout);
  std::mt19937 random(11);
  const std::vector<std::int32_t> lengths = {1, 7, 12, 3};
  std::vector<std::int32_t> ids, types;
  for (int t = 0; t < 23; ++t) {
    ids.push_back(static_cast<std::int32_t>(random() % 23));
    types.push_back(static_cast<std::int32_t>(t % 2));
  }
  if (family == "esm") ids[3] = ids[10] = esm_mask;
  test::HostBatch batch(ids, types, lengths);
  batch.set_classes({0, 4, 2, 2});
  batch.set_values({1, 0, 0, 1});
  if (head.lists) batch.set_lists({0, 4});
  if (head.bounded) {
    batch.set_values({1, 0.25f, 0, 0.6f});
    batch.set_bounded();
  }
  const bool of_words = kind.is_token_head;  // a class for some tokens
  batch.set_masked({0, 3, 4, 9, 19, 22}, of_words ? std::vector<std::int32_t>{0, 1, 4, 3, 3, 0}
                                                  : std::vector<std::int32_t>{5, 1, 22, 7, 7, 0});
  batch.set_spans({0, 0, 2, 6, 0, 0, 1, 1});
  const core::MicroBatch& view = fixture.plan.head.token == layers::SequenceToken::last ? batch.last_tokens()
                                 : kind.reads_all_tokens                                ? batch.all_tokens()
                                                         : batch.view(kind.predicts_tokens || of_words);

  fixture.loss(view, true);
  const double whole = [&] {
    double sum = 0;
    for (const float g : fixture.store.gradients()) sum += static_cast<double>(g) * g;
    return std::sqrt(sum);
  }();
  REQUIRE(whole > 0.1);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < fixture.store.slices().size(); ++i) {
    const core::ParameterSlice& slice = fixture.store.slices()[i];
    const core::Tensor<float> value = fixture.store.change_value(static_cast<int>(i));
    const core::Tensor<float> gradient = fixture.store.gradient(static_cast<int>(i));
    std::vector<float> direction(static_cast<std::size_t>(slice.size)), before(value.data, value.data + slice.size);
    double norm = 0, expected = 0;
    for (float& u : direction) {
      u = normal(random);
      norm += static_cast<double>(u) * u;
    }
    for (std::size_t j = 0; j < direction.size(); ++j) {
      direction[j] /= static_cast<float>(std::sqrt(norm));
      expected += static_cast<double>(direction[j]) * gradient.data[j];
    }
    const double h = 2e-2;
    double loss[2];
    for (int side = 0; side < 2; ++side) {
      for (std::size_t j = 0; j < direction.size(); ++j) {
        value.data[j] = before[j] + static_cast<float>(side == 0 ? h : -h) * direction[j];
      }
      loss[side] = fixture.loss(view, false);
    }
    std::copy(before.begin(), before.end(), value.data);
    const double measured = (loss[0] - loss[1]) / (2 * h);
    // Rounding: losses of order 10 in fp32 with about 100 roundings give 1e-5, over 2h = 4e-2: 2.5e-4; truncation: h²/6
    // of a third derivative of the order of the gradient: 1e-4·gradient. Both are far below an error that matters.
    INFO(slice.name << " measured " << measured << " expected " << expected << " of " << whole);
    CHECK(std::abs(measured - expected) < 1e-3 + 2e-3 * whole);
  }
}

TEST_CASE("a causal pre-norm model learns a class for every token, from those before it") {
  Fixture fixture(Case{test::token_head}, no_biases, 0.0);
  const std::vector<std::int32_t> lengths = {6, 5};
  const std::vector<std::int32_t> ids = {1, 2, 3, 2, 1, 4, 2, 1, 1, 3, 4};
  test::HostBatch batch(ids, std::vector<std::int32_t>(ids.size(), 0), lengths);
  std::vector<std::int32_t> rows, classes;  // that of the token before, which only attention can see
  for (std::int32_t t = 0; t < 11; ++t) {
    if (t == 0 || t == 6) continue;
    rows.push_back(t);
    classes.push_back(ids[static_cast<std::size_t>(t - 1)]);
  }
  batch.set_masked(rows, classes);
  const core::MicroBatch& view = batch.view(true);
  const double before = fixture.loss(view, false);
  for (int step = 0; step < 150; ++step) {
    const std::span<float> gradients = fixture.store.gradients();
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    fixture.loss(view, true);
    const std::span<float> values = fixture.store.change_values();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.02f * gradients[i];
  }
  const double after = fixture.loss(view, false);
  INFO(before << " before, " << after << " after");
  CHECK(after < 0.1 * before);
}
