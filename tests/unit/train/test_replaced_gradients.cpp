// Gradients of weights that a step replaces need not be zeroed by the update before: parameters are the same, bit for
// bit.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/model/bert.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "bert_hpc/train/pipeline.hpp"
#include "support/heads.hpp"
#include "support/narrow_base.hpp"

using namespace bert_hpc;

namespace {

const layers::HeadKind kind = tests::classification_head;

/// One rank that trains on one micro-batch a step.
class Training {
 public:
  Training(core::DataType compute, bool replaces)
      : store_(model::bert_parameters(config_, kind, 2), core::ParameterStore::Arenas::with_gradients,
               train::shard_alignment(false, 1)),
        bert_(config_, kind, 2, model::whole(config_), store_, {}, compute),
        products_(ops::make_matrix_product("native", {.compute = compute})),
        attention_(ops::make_attention("fused", compute)),
        engine_{*products_, *attention_} {
    model::initialize_parameters(store_, config_, 1);
    const layers::BatchBounds bounds = tests::bounds_of(batch_->view());
    bert_.plan(workspace_, bounds, {});
    workspace_.allocate();
    products_->keep_weights(store_);
    for (const ops::ProductExtents& e : model::product_extents({&bert_, 1}, bounds)) products_->reserve(e);
    attention_->reserve(bounds.max_length, config_.head_dim());
    sums_ = train::make_data_parallel(*alone_, store_);
    if (replaces) {
      engine_.weight_gradients = ops::Write::replace;
      replaced = train::replaced_gradients(store_, {&bert_, 1});
    }
    adamw.emplace(train::AdamwSettings{}, store_, sums_->owned(), false, products_->kept_weights(), replaced);
  }

  void step(int number) {
    const layers::StepContext pass{.batch = batch_->view(), .training = true, .key0 = 1, .key1 = 2};
    sums_->begin_step(1);
    bert_.open(workspace_, pass);
    bert_.forward(engine_, pass);
    bert_.loss(pass, 1.0f / 32);
    bert_.backward(engine_, pass, workspace_, [this](std::int64_t begin) { sums_->finished(begin); });
    sums_->end_micro_batch();
    sums_->end_step();
    sums_->norm().start({}, adamw->max_gradient_norm(), 1);
    adamw->step_on_device(1e-3, number, sums_->norm().factor());
    sums_->share_parameters();
  }

  /// On the host.
  static std::vector<float> copy_of(std::span<const float> device) {
    std::vector<float> host(device.size());
    core::copy_to_host(device, std::span<float>(host));
    return host;
  }
  std::vector<float> values() const { return copy_of(store_.values()); }
  std::vector<float> gradients() const { return copy_of(store_.gradients()); }

  std::vector<train::ArenaRange> replaced;
  std::optional<train::Adamw> adamw;

 private:
  model::BertConfig config_ = tests::narrow_base();
  std::unique_ptr<comm::Communicator> alone_ = comm::make_self_communicator();
  std::unique_ptr<tests::HostBatch> batch_ = tests::narrow_batch(32);
  core::ParameterStore store_;
  model::Stage bert_;
  std::unique_ptr<ops::MatrixProduct> products_;
  std::unique_ptr<ops::Attention> attention_;
  layers::Engine engine_;
  core::Workspace workspace_;
  std::unique_ptr<train::DataParallel> sums_;
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

  replaces.adamw->clear_replaced();
  const std::vector<float> cleared = replaces.gradients();
  CHECK(std::count(cleared.begin(), cleared.end(), 0.0f) == static_cast<std::ptrdiff_t>(cleared.size()));
}
