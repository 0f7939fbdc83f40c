// A loss over a whole step: replicas with different micro-batches, one of them without any, against one rank that has
// all of them.
#include "bert_hpc/train/step_loss.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/ops/concordance_loss.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "support/world.hpp"

using namespace bert_hpc;
using test::world;

namespace {

constexpr int micro_batches_of_replica = 2;
constexpr std::int64_t most_sequences = 4, most_tokens = 24;
constexpr float scale = 0.5f;

const layers::StepLossKind concordance = {.compute = [](const layers::StepOutputs& all, std::int64_t begin,
                                                        float factor, float* row_losses, core::Tensor<float> d_logits) {
  ops::concordance_loss(all.logits, all.targets<float>(), begin, factor, row_losses, d_logits);
}};

model::ModelConfig small_config() {
  model::ModelConfig config;
  config.vocab_size = 23;
  config.hidden_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.intermediate_size = 40;
  config.max_position_embeddings = 8;
  return config;
}

/// One to four sequences; replica 1 has none.
struct Batch {
  explicit Batch(int number) {
    std::mt19937 random(static_cast<unsigned>(number));
    const int count = number / micro_batches_of_replica == 1 ? 0 : 1 + number % 4;
    std::vector<std::int32_t> lengths, ids, types;
    for (int b = 0; b < count; ++b) {
      lengths.push_back(static_cast<std::int32_t>(1 + random() % 6));
      labels.push_back(0.1f * static_cast<float>(random() % 40));
      for (std::int32_t t = 0; t < lengths.back(); ++t) {
        ids.push_back(static_cast<std::int32_t>(random() % 23));
        types.push_back(0);
      }
    }
    inputs = std::make_unique<test::HostBatch>(ids, types, lengths);
    inputs->set_values(labels);
  }
  std::int64_t sequences() const { return std::ssize(labels); }

  std::vector<float> labels;
  std::unique_ptr<test::HostBatch> inputs;
};

core::BatchPlan plan_of(const std::vector<Batch>& batches, int replicas) {
  core::BatchPlan plan;
  plan.chunk_begin = plan.micro_begin = plan.replica_begin = {0};
  for (std::size_t m = 0; m < batches.size(); ++m) {
    plan.samples.resize(plan.samples.size() + batches[m].labels.size());
    plan.chunk_begin.push_back(static_cast<std::int32_t>(plan.samples.size()));
    plan.micro_begin.push_back(static_cast<std::int32_t>(m + 1));
    if ((m + 1) % (batches.size() / static_cast<std::size_t>(replicas)) == 0) {
      plan.replica_begin.push_back(static_cast<std::int32_t>(m + 1));
    }
  }
  return plan;
}

/// What the micro-batches [first, last) of all have in a training with this many replicas.
struct Result {
  std::vector<float> logits, losses, gradients;

  /// `looks`: with a first round of forward passes, which keep nothing and share a slot.
  Result(const std::vector<Batch>& batches, std::size_t first, std::size_t last, comm::Communicator& replicas,
         bool looks = false) {
    const model::ModelConfig config = small_config();
    const model::ModelPlan model_plan = model::make_plan(config, test::regression_head, 1);
    core::ParameterStore store(model::model_parameters(model_plan, model::whole(model_plan)),
                               core::ParameterStore::Arenas::with_gradients);
    model::initialize_parameters(store, config, 5);
    std::vector<model::Stage> stages;
    stages.emplace_back(model_plan, model::whole(model_plan), store);
    model::Stage& stage = stages.front();
    core::Workspace workspace;
    const layers::BatchBounds bounds{
        .tokens = most_tokens, .sequences = most_sequences, .max_length = 6, .selected = most_sequences};
    const std::vector<model::StageMemory> memory = {{.slots = static_cast<int>(last - first)}},
                                          nothing_kept = {{.training = false}};
    model::Stage::plan(stages, workspace, bounds, memory);
    model::Stage::plan(stages, workspace, bounds, nothing_kept);
    workspace.allocate();
    const auto products = ops::make_matrix_product(test::independent_products());
    const auto attention = ops::make_attention();
    for (const ops::ProductExtents& e : model::product_extents(stages, bounds)) products->reserve(e);
    attention->reserve(6, config.head_dim());
    layers::Engine engine{*products, *attention};

    train::StepLoss loss({.loss = concordance, .rows = most_sequences * std::ssize(batches), .outputs = 1}, replicas);
    const core::BatchPlan plan = plan_of(batches, replicas.size());
    for (int step = 0; step < 2; ++step) {  // the second finds what the first has left
      logits.clear();
      loss.begin({.scale = scale, .plan = &plan});
      for (std::size_t m = first; looks && m < last; ++m) {
        if (batches[m].sequences() == 0) continue;
        layers::StepContext context{batches[m].inputs->view(), true, 1, 2};
        context.forward_only = true;
        stage.open(workspace, context, 0);
        stage.forward(engine, context, 0);
        loss.look({static_cast<int>(m - first), &stage, 0}, context);
      }
      std::int64_t missing = 0;
      for (std::size_t m = last; m-- > first;) missing += batches[m].sequences();
      for (std::size_t m = last; m-- > first;) {  // any order will do
        if (batches[m].sequences() == 0) continue;
        missing -= batches[m].sequences();
        const int slot = static_cast<int>(m - first);
        const layers::StepContext context{batches[m].inputs->view(), true, 1, 2};
        stage.open(workspace, context, slot);
        stage.forward(engine, context, slot);
        const std::vector<float> found = copied(stage, slot, batches[m].sequences());
        logits.insert(logits.begin(), found.begin(), found.end());
        const auto done = loss.add({slot, &stage, slot}, context);
        CHECK(done.empty() == (missing > 0 && !looks));
        CHECK((!looks || (done.size() == 1 && done.front().micro_batch == slot)));
      }
    }
    for (std::size_t m = first; m < last; ++m) {
      if (batches[m].sequences() == 0) continue;
      const int slot = static_cast<int>(m - first);
      for (const float x : test::copy_of(stage.row_losses(slot), batches[m].sequences())) losses.push_back(x);
      for (const float x : copied(stage, slot, batches[m].sequences())) gradients.push_back(x);
    }
  }

 private:
  static std::vector<float> copied(const model::Stage& stage, int slot, std::int64_t rows) {
    const auto values = test::copy_of(stage.logits(slot).as<const float>().data, rows);
    return {values.begin(), values.end()};
  }
};

}  // namespace

TEST_CASE("a step's loss and gradients are those of one rank with all sequences") {
  const int replicas = world().size();
  std::vector<Batch> batches;
  for (int m = 0; m < replicas * micro_batches_of_replica; ++m) batches.emplace_back(m);
  const auto first = static_cast<std::size_t>(world().rank() * micro_batches_of_replica);
  const Result mine(batches, first, first + micro_batches_of_replica, world());
  const auto alone = comm::make_self_communicator();
  const Result whole(batches, 0, batches.size(), *alone);

  std::size_t begin = 0;
  for (std::size_t m = 0; m < first; ++m) begin += batches[m].labels.size();
  const auto part = [&](const std::vector<float>& all) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
    return std::vector<float>(from, from + std::ssize(mine.logits));
  };
  CHECK(mine.logits == part(whole.logits));
  CHECK(mine.losses == part(whole.losses));
  CHECK(mine.gradients == part(whole.gradients));
  const Result in_two_rounds(batches, first, first + micro_batches_of_replica, world(), true);
  CHECK(in_two_rounds.logits == mine.logits);
  CHECK(in_two_rounds.losses == mine.losses);
  CHECK(in_two_rounds.gradients == mine.gradients);

  // By the definition, in double precision; the loss is rounded once, to 2⁻²⁴ of a value below 2.
  std::vector<float> labels;
  for (const Batch& batch : batches) labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
  double mx = 0, my = 0, products = 0, squares = 0;
  const auto count = static_cast<double>(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    mx += whole.logits[i] / count;
    my += labels[i] / count;
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    products += (whole.logits[i] - mx) * (labels[i] - my);
    squares += (whole.logits[i] - mx) * (whole.logits[i] - mx) + (labels[i] - my) * (labels[i] - my);
  }
  const double loss = 1 - 2 * products / (squares + count * (mx - my) * (mx - my));
  REQUIRE(!whole.losses.empty());
  for (const float found : whole.losses) CHECK(std::abs(found - loss) < 2e-7);
}
