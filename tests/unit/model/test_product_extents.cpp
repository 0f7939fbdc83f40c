// The extents that a plan lists against those that the passes ask for, over random models, heads and batches: a product
// that is missing in the plan would run out of memory in the first step.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/model/stage.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "support/recorded_product.hpp"
#include "support/vector.hpp"

using namespace bert_hpc;
using model::HeadKind;

namespace {

class Random {
 public:
  explicit Random(unsigned seed) : bits_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(bits_() % static_cast<unsigned>(most - least + 1));
  }

 private:
  std::mt19937 bits_;
};

model::ModelConfig random_config(Random& random) {
  model::ModelConfig config;
  config.num_attention_heads = random.between(1, 3);
  config.hidden_size = config.num_attention_heads * 2 * random.between(1, 8);
  config.num_hidden_layers = random.between(1, 3);
  config.intermediate_size = random.between(1, 90);
  config.vocab_size = random.between(5, random.between(0, 3) == 0 ? 3000 : 40);
  config.max_position_embeddings = 16;
  return config;
}

/// Of `sequences` sequences; every head finds its targets in it.
std::unique_ptr<test::HostBatch> random_batch(Random& random, std::int64_t sequences, const model::ModelConfig& config,
                                              std::int64_t outputs) {
  std::vector<std::int32_t> lengths, ids, types, classes, masked_rows, masked_labels;
  for (std::int64_t b = 0; b < sequences; ++b) {
    lengths.push_back(static_cast<std::int32_t>(random.between(1, 16)));
    classes.push_back(static_cast<std::int32_t>(random.between(0, outputs - 1)));
    for (std::int32_t t = 0; t < lengths.back(); ++t) {
      if (random.between(0, 5) == 0) {
        masked_rows.push_back(static_cast<std::int32_t>(ids.size()));
        masked_labels.push_back(static_cast<std::int32_t>(random.between(0, config.vocab_size - 1)));
      }
      ids.push_back(static_cast<std::int32_t>(random.between(0, config.vocab_size - 1)));
      types.push_back(0);
    }
  }
  auto batch = std::make_unique<test::HostBatch>(ids, types, lengths);
  batch->set_classes(classes);
  batch->set_values(std::vector<float>(static_cast<std::size_t>(sequences), 0.5f));
  batch->set_masked(masked_rows, masked_labels);
  return batch;
}

/// What a training step and an evaluation of the batch ask for, on a matrix product with memory for the plan alone.
std::set<ops::ProductExtents> requested(const model::ModelConfig& config, HeadKind kind, std::int64_t outputs,
                                        const core::MicroBatch& batch, core::DataType storage, bool split,
                                        std::vector<ops::ProductExtents>& planned) {
  core::ParameterStore store(model::model_parameters(config, kind, outputs),
                             core::ParameterStore::Arenas::with_gradients);
  model::initialize_parameters(store, config, 5);
  model::Stage stage(config, kind, outputs, model::whole(config), store, {}, storage);
  const auto attention = ops::make_attention("fused", storage);
  const layers::BatchBounds bounds{.tokens = batch.tokens.count,
                                   .sequences = batch.sequences,
                                   .max_length = batch.max_length,
                                   .selected = batch.targets.rows.count,
                                   .dropout_tiles = attention->dropout_tiles(batch.max_length, config.head_dim())};
  core::Workspace workspace;
  stage.plan(workspace, bounds, {.slots = 1, .deferred = split ? 1 : 0});
  stage.plan(workspace, bounds, {.training = false});
  workspace.allocate();
  test::RecordedProduct products(ops::make_matrix_product(test::independent_products(), {.compute = storage}));
  planned = model::product_extents({&stage, 1}, bounds);
  for (const ops::ProductExtents& e : planned) products.reserve(e);
  attention->reserve(bounds.max_length, config.head_dim());
  layers::Engine engine{products, *attention};
  for (const bool training : {true, false}) {
    const layers::StepContext context{.batch = batch, .training = training, .key0 = 1, .key1 = 2};
    stage.open(workspace, context);
    stage.forward(engine, context);
    stage.loss(context, 1.0f);
    const auto finished = [](std::int64_t) {};
    if (training && !split) stage.backward(engine, context, workspace, finished);
    if (training && split) {
      stage.backward_input(engine, context, workspace, 0, 0);
      stage.backward_weight(engine, context, finished, 0, 0);
    }
  }
  core::wait_for_kernels();
  return products.requested();
}

}  // namespace

TEST_CASE("every matrix product of a step is in the plan, for random models, batches and heads", "[product_extents]") {
  Random random(20261122);
  const HeadKind kinds[] = {test::classification_head, test::regression_head, test::masked_lm_head};
  constexpr core::DataType types[] = {core::DataType::fp32, core::DataType::bf16, core::DataType::fp16};
  for (int round = 0; round < 300; ++round) {
    const model::ModelConfig config = random_config(random);
    const auto drawn = random.between(0, 2);
    const HeadKind& kind = kinds[drawn];
    const std::int64_t outputs = drawn == 1 ? 1 : random.between(1, random.between(1, 4000));
    const auto batch = random_batch(random, random.between(1, 20), config, outputs);
    const core::DataType type = types[random.between(0, 2)];
    std::vector<ops::ProductExtents> planned;
    const auto found =
        requested(config, kind, outputs, batch->view(kind.predicts_tokens), type, random.between(0, 1) == 0, planned);
    INFO("round " << round << ": hidden " << config.hidden_size << ", intermediate " << config.intermediate_size
                  << ", outputs " << outputs << ", vocabulary " << config.vocab_size);
    // The batch is as large as the bounds: neither more nor less is planned than is asked for.
    CHECK(std::vector<ops::ProductExtents>(found.begin(), found.end()) == planned);
  }
}

TEST_CASE("heads of thousands of labels have their products in the plan", "[product_extents]") {
  for (const std::int64_t labels : {1, 2000, 3000, 10000, 50000}) {
    for (const std::int64_t sequences : {1, 2, 16, 100}) {
      Random random(7);
      model::ModelConfig config = random_config(random);
      config.hidden_size = 12 * config.num_attention_heads;
      const auto batch = random_batch(random, sequences, config, labels);
      std::vector<ops::ProductExtents> planned;
      CHECK_NOTHROW(
          requested(config, test::classification_head, labels, batch->view(), core::DataType::fp32, false, planned));
      INFO(labels << " labels, " << sequences << " sequences");
      CHECK(std::find(planned.begin(), planned.end(), ops::ProductExtents{sequences, config.hidden_size, labels}) !=
            planned.end());
    }
  }
}
