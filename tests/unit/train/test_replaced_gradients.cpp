// Gradients of weights that a step replaces need not be zeroed by the update before: parameters are the same, bit for
// bit. They may be stored in bf16, which moves parameters by little.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/ops/losses.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "bert_hpc/train/weight_gradients.hpp"
#include "support/heads.hpp"
#include "support/narrow_base.hpp"

using namespace bert_hpc;

namespace {

const layers::HeadKind kind = test::classification_head;

/// One rank that trains on one micro-batch a step.
class Training {
 public:
  Training(core::DataType compute, bool replaces, core::DataType gradients = core::DataType::fp32)
      : store_(model::model_parameters(config_, kind, 2), core::ParameterStore::Arenas::with_gradients,
               train::shard_alignment(false, 1), {.zero_lines = true, .product_gradients = gradients}),
        bert_(config_, kind, 2, model::whole(config_), store_, {}, compute),
        products_(ops::make_matrix_product(test::independent_products(),
                                           {.compute = compute, .weight_gradients = gradients})),
        attention_(ops::make_attention("fused", compute)),
        engine_{*products_, *attention_} {
    model::initialize_parameters(store_, config_, 1);
    const layers::BatchBounds bounds = test::bounds_of(batch_->view());
    bert_.plan(workspace_, bounds, {});
    workspace_.allocate();
    products_->keep_weights(store_);
    for (const ops::ProductExtents& e : model::product_extents({&bert_, 1}, bounds)) products_->reserve(e);
    attention_->reserve(bounds.max_length, config_.head_dim());
    reducer_ = train::make_data_parallel(*alone_, store_);
    if (replaces) {
      engine_.weight_gradients = ops::Write::replace;
      replaced = train::replaced_gradients(store_);
    }
    optimizer.emplace(train::OptimizerSettings{}, store_, reducer_->owned(), false, products_->kept_weights(),
                      replaced);
  }

  /// The mean loss before it.
  double step(int number) {
    const layers::StepContext pass{.batch = batch_->view(), .training = true, .key0 = 1, .key1 = 2};
    reducer_->begin_step(1);
    bert_.open(workspace_, pass);
    bert_.forward(engine_, pass);
    bert_.loss(pass, 1.0f / 32);
    ops::sum(bert_.row_losses(), 32, loss_.device());
    bert_.backward(engine_, pass, workspace_, [this](std::int64_t begin) { reducer_->finished(begin); });
    reducer_->end_micro_batch();
    reducer_->end_step();
    reducer_->norm().start({}, optimizer->max_gradient_norm(), 1);
    optimizer->step_on_device(1e-3, number, reducer_->norm().factor());
    reducer_->share_parameters();
    return loss_.to_host(1)[0] / 32;
  }
  double norm() { return reducer_->norm().result(); }

  /// On the host.
  static std::vector<float> copy_of(std::span<const float> device) {
    std::vector<float> host(device.size());
    core::copy_to_host(device, std::span<float>(host));
    return host;
  }
  std::vector<float> values() const { return copy_of(store_.values()); }
  std::vector<float> gradients() const { return copy_of(store_.gradients()); }

  std::vector<train::ArenaRange> replaced;
  std::optional<train::Optimizer> optimizer;
  const core::ParameterStore& store() const { return store_; }

 private:
  model::ModelConfig config_ = test::narrow_base();
  std::unique_ptr<comm::Communicator> alone_ = comm::make_self_communicator();
  std::unique_ptr<test::HostBatch> batch_ = test::narrow_batch(32);
  core::ParameterStore store_;
  model::Stage bert_;
  std::unique_ptr<ops::MatrixProduct> products_;
  std::unique_ptr<ops::Attention> attention_;
  layers::Engine engine_;
  core::Workspace workspace_;
  std::unique_ptr<train::DataParallel> reducer_;
  core::MirroredArray<double> loss_{1};
};

}  // namespace

TEST_CASE("gradients that the next step replaces are not zeroed, and parameters have the same bits") {
  const auto compute = GENERATE(core::DataType::fp32, core::DataType::bf16);
  Training plain(compute, false), replaces(compute, true);
  for (int step = 1; step <= 3; ++step) {
    plain.step(step);
    replaces.step(step);
  }
  const std::vector<float> expected = plain.values(), found = replaces.values();
  CHECK(std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)) == 0);

  const std::vector<float> none = plain.gradients();
  CHECK(std::count(none.begin(), none.end(), 0.0f) == static_cast<std::ptrdiff_t>(none.size()));
  REQUIRE(replaces.replaced.size() >= 4 * 12);
  std::vector<float> kept = replaces.gradients();
  for (const train::ArenaRange& range : replaces.replaced) {
    const auto begin = kept.begin() + range.begin, end = kept.begin() + range.end;
    CHECK(std::count(begin, end, 0.0f) < (range.end - range.begin) / 2);
    std::fill(begin, end, 0.0f);
  }
  CHECK(std::count(kept.begin(), kept.end(), 0.0f) == static_cast<std::ptrdiff_t>(kept.size()));

  replaces.optimizer->clear_replaced();
  const std::vector<float> cleared = replaces.gradients();
  CHECK(std::count(cleared.begin(), cleared.end(), 0.0f) == static_cast<std::ptrdiff_t>(cleared.size()));
}

TEST_CASE("gradients of the blocks' weights in bf16 take half the memory and move a training by little") {
  constexpr auto bf16 = core::DataType::bf16;
  Training wide(bf16, true), narrow(bf16, true, bf16);
  std::int64_t elements = 0;
  for (const train::ArenaRange& range : narrow.replaced) elements += range.end - range.begin;
  // Ranges in bf16 begin and end with a cache line.
  CHECK(wide.store().gradient_bytes() - narrow.store().gradient_bytes() <= 2 * elements);
  CHECK(wide.store().gradient_bytes() - narrow.store().gradient_bytes() >= 2 * elements - 64 * 4 * 12);
  const train::ShardPlan plan = train::plan_shards(narrow.store(), {}, 1);
  CHECK(plan.memory()[1] == std::pair<std::string, std::int64_t>(
                                "gradients", narrow.store().gradient_bytes() + narrow.store().marked() / 16));
  CHECK_THROWS_AS(narrow.store().gradients(), core::Error);
  CHECK_THROWS_AS(narrow.store().gradient(narrow.store().find("bert.encoder.layer.0.output.dense.weight")),
                  core::Error);

  double largest = 0, learning_rate = 1e-3;
  for (int step = 1; step <= 3; ++step) {
    const double expected = wide.step(step), found = narrow.step(step);
    // In the first step the loss is of the same parameters, and gradients differ by one rounding, 2^-8 at most. Of a
    // later loss, the change so far differs by no more than the gradient does, and most of these errors cancel.
    CHECK(std::abs(found - expected) <= (step == 1 ? 0.0 : std::ldexp(expected, -8)));
    if (step == 1) CHECK(std::abs(narrow.norm() / wide.norm() - 1) < 0x1p-8);
    if (step > 1) CHECK(found != expected);
  }
  const std::vector<float> expected = wide.values(), found = narrow.values();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i])));
  }
  UNSCOPED_INFO("largest difference " << largest);
  CHECK(largest < 3 * learning_rate);
  CHECK(largest > 0);
  narrow.optimizer->clear_replaced();
  narrow.optimizer->discard();
  for (const core::ParameterStore::GradientRange& range : narrow.store().gradient_ranges()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>((range.end - range.begin) * core::bytes_of(range.type)));
    core::copy_to_host(range.data, bytes.data(), bytes.size());
    CHECK(std::count(bytes.begin(), bytes.end(), std::byte{0}) == static_cast<std::ptrdiff_t>(bytes.size()));
  }
}

TEST_CASE("gradients of the blocks' weights are in bf16 where nothing is added to them, on GPUs by default") {
  using core::DataType;
  const train::WeightGradientFacts gpu{.compute = DataType::bf16, .gpu = true};
  const auto type_of = [](train::WeightGradientFacts facts, const auto& change, const char* stated) {
    change(facts);
    return train::weight_gradient_type(facts, stated);
  };
  const auto nothing = [](train::WeightGradientFacts&) {};
  const auto on_cpu = [](train::WeightGradientFacts& f) { f.gpu = false; };
  CHECK(type_of(gpu, nothing, "auto") == DataType::bf16);
  CHECK(type_of(gpu, nothing, "fp32") == DataType::fp32);
  CHECK(type_of(gpu, on_cpu, "auto") == DataType::fp32);
  CHECK(type_of(gpu, on_cpu, "bf16") == DataType::bf16);
  const auto stays = [&](const auto& change) { return type_of(gpu, change, "bf16") == DataType::fp32; };
  CHECK(stays([](train::WeightGradientFacts& f) { f.compute = DataType::fp32; }));
  CHECK(stays([](train::WeightGradientFacts& f) { f.compute = DataType::fp16; }));
  CHECK(stays([](train::WeightGradientFacts& f) { f.reproducible = true; }));
  CHECK(stays([](train::WeightGradientFacts& f) { f.offload = true; }));
  CHECK(stays([](train::WeightGradientFacts& f) { f.micro_batches = 2; }));
  CHECK(stays([](train::WeightGradientFacts& f) { f.replicas = 2; }));
  CHECK(stays([](train::WeightGradientFacts& f) { f.shares_blocks = true; }));
  CHECK_THROWS_AS(train::weight_gradient_type(gpu, "16"), core::Error);
}
