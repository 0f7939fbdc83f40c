// How much a training step asks of its device, counted: a GPU waits for what the host launches one by one. The products
// are a library's (a GEMM, and kernels for what it does not fuse), as on GPUs; their results do not matter here.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "../src/ops/gemm.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/environment.hpp"
#include "bert_hpc/model/partition.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "support/counted_group.hpp"
#include "support/heads.hpp"
#include "support/narrow_base.hpp"
#include "support/tests_directory.hpp"

using namespace bert_hpc;
using core::ConstMatrix;
using core::DeviceCall;
using core::Matrix;
using core::Tensor;

namespace {

const layers::HeadKind kind = test::classification_head;

/// What a step runs on: a library without fused forms, or cuBLASLt, whose epilogues add biases, and a GPU's backward
/// kernels, which sum over rows what they write (ops/fusion.hpp: "on").
enum class Fused { no, as_on_gpus };

class CountedGemm final : public ops::GemmProduct {
 public:
  CountedGemm(core::DataType compute, Fused fused) : GemmProduct(compute), fused_(fused) {}
  std::string name() const override { return "counted"; }
  void forward(ConstMatrix x, Tensor<const float> w, const ops::Epilogue& epilogue, Matrix y) override {
    if (fused_ == Fused::no) return GemmProduct::forward(x, w, epilogue, y);
    GemmProduct::forward(x, w, {}, epilogue.sum(y));
    if (epilogue.activation != ops::Activation::none) ops::activate(epilogue, y);
  }

 private:
  void gemm(std::int64_t, std::int64_t, std::int64_t, const Operand&, const Operand&, float, const Result&) override {
    core::count_call(DeviceCall::product, "gemm");
  }

  Fused fused_;
};

/// A step of the first of `ranks` ranks, which do not exist, as the trainer does it.
core::CallCount counted_step(core::DataType compute, int ranks = 1, std::int64_t bucket_elements = 0,
                             Fused fused = Fused::no, int blocks = 12) {
  model::ModelConfig config = test::narrow_base();
  config.num_hidden_layers = blocks;
  test::CountedGroup group(comm::make_self_communicator(), ranks);
  const train::ShardSettings shards{.bucket_elements = bucket_elements};
  core::ParameterStore store(model::model_parameters(config, kind, 2), core::ParameterStore::Arenas::with_gradients,
                             train::shard_alignment(false, ranks), train::shard_memory(shards, group));
  model::initialize_parameters(store, config, 1);
  model::Stage bert(config, kind, 2, model::whole(config), store, {}, compute, fused == Fused::as_on_gpus);
  CountedGemm products(compute, fused);
  const auto attention = ops::make_attention("fused", compute);
  const auto batch = test::narrow_batch(32);
  core::Workspace workspace;
  const core::MicroBatch& view = batch->view();
  const layers::BatchBounds bounds = test::bounds_of(view);
  bert.plan(workspace, bounds, {});
  workspace.allocate();
  products.keep_weights(store);
  attention->reserve(bounds.max_length, config.head_dim());
  const auto sums = train::make_data_parallel(group, store, shards);
  train::Optimizer optimizer({.postpones = false}, store, sums->owned(), false, products.kept_weights());  // as on GPUs
  layers::Engine engine{products, *attention};
  const core::MirroredArray<double> losses(1);
  train::GradientNorm& norm = sums->norm();
  core::CallCount last;
  for (int step = 0; step < 2; ++step) {  // the first rounds all weights
    core::CallCount count;
    const core::ObserveCalls counting(&count);
    const layers::StepContext pass{.batch = view, .training = true, .key0 = 1, .key1 = 2};
    sums->begin_step(1);
    count.enter("forward");
    bert.open(workspace, pass);
    bert.forward(engine, pass);
    bert.loss(pass, 1.0f / 32);
    count.enter("backward");
    bert.backward(engine, pass, workspace, [&sums](std::int64_t begin) { sums->finished(begin); });
    sums->end_micro_batch();
    sums->end_step();
    count.enter("norm");
    if (norm.is_alone()) {
      norm.start({.losses = losses.device(), .micro_batches = 1, .targets = 32}, 1.0, 1);
      count.enter("update");
      optimizer.step_on_device(1e-5, step + 1, norm.factor());
      count.enter("loss");
      losses.to_host(1);
    } else {
      norm.start();
      losses.to_host(1);
      const double size = norm.result();
      count.enter("update");
      optimizer.step(1e-5, step + 1, size, [&sums](std::size_t range) { sums->share_range(range); });
    }
    count.enter("share");
    sums->share_parameters();
    last = count;
  }
  return last;
}

std::int64_t in_section(const core::CallCount& count, DeviceCall call, std::string_view section) {
  std::int64_t sum = 0;
  for (const core::CallCount::Entry& entry : count.entries()) {
    if (entry.call == call && entry.section == section) sum += entry.count;
  }
  return sum;
}

}  // namespace

TEST_CASE("a step of BERT-base on one rank is at most 400 launches, and the host waits once") {
  const core::CallCount count = counted_step(core::DataType::bf16);
  for (const core::CallCount::Entry& entry : count.entries()) {
    UNSCOPED_INFO(entry.section << ", " << core::device_call_names[static_cast<std::size_t>(entry.call)] << ": "
                                << entry.name << " " << entry.count);
  }
  // A linear layer has one product in forward and two in backward: 4 in each block, and one more in the last, whose
  // queries are of the first tokens alone; then pooler and classifier.
  CHECK(count.total(DeviceCall::product) == 3 * (12 * 4 + 1 + 2));
  CHECK(in_section(count, DeviceCall::kernel, "norm") <= 2);
  CHECK(in_section(count, DeviceCall::kernel, "update") == 1);
  CHECK(in_section(count, DeviceCall::kernel, "share") == 0);
  CHECK(count.total(DeviceCall::wait) == 1);
  CHECK(count.total(DeviceCall::collective) == 0);
  // The CUDA build's attention takes up to two kernels more in backward.
  constexpr std::int64_t of_cuda_attention = 12 * 2;
  CHECK(count.total(DeviceCall::kernel) + of_cuda_attention + count.total(DeviceCall::product) +
            count.total(DeviceCall::copy) + count.total(DeviceCall::fill) <=
        400);
}

TEST_CASE("ZeRO 1 on 8 GPUs takes at most 16 messages of each kind, as many updates, and one wait") {
  // As many buckets as BERT-base has: a twelfth of the arena each.
  const core::ParameterStore layout(model::model_parameters(test::narrow_base(), kind, 2),
                                    core::ParameterStore::Arenas::none, train::shard_alignment(false, 8));
  const core::CallCount count = counted_step(core::DataType::bf16, 8, layout.arena_size() / 12);
  CHECK(count.total(DeviceCall::collective, "reduce_scatter") <= 16);
  CHECK(count.total(DeviceCall::collective, "reduce_scatter") > 8);
  CHECK(count.total(DeviceCall::collective, "all_gather") == count.total(DeviceCall::collective, "reduce_scatter"));
  CHECK(in_section(count, DeviceCall::kernel, "update") == count.total(DeviceCall::collective, "reduce_scatter"));
  CHECK(in_section(count, DeviceCall::kernel, "norm") == 2);
  CHECK(count.total(DeviceCall::collective, "all_reduce") == 1);
  CHECK(count.total(DeviceCall::wait) == 1);
}

TEST_CASE("the table of launches from which the roofline is made is that of a step", "[launches]") {
  if (core::is_gpu_build()) SKIP("the table is that of a CPU build, whose kernels have other names");
  nlohmann::json table;
  for (const int blocks : {12, 24}) {
    const core::CallCount count = counted_step(core::DataType::bf16, 1, 0, Fused::as_on_gpus, blocks);
    nlohmann::json& calls = table[std::to_string(blocks)];
    for (const core::CallCount::Entry& entry : count.entries()) {
      if (entry.call == DeviceCall::wait || entry.call == DeviceCall::collective) continue;
      std::string name(entry.name);
      name = name.substr(name.rfind(':') + 1);
      calls[std::string(entry.section) + " " + name] = entry.count;
    }
  }
  const std::filesystem::path path = test::tests_directory() / "bench/results/launches.json";
  const std::string text = table.dump(1) + '\n';
  // Writes the table where a person asks for it, else compares.
  if (core::environment("BERT_HPC_WRITE_LAUNCHES") == "1") std::ofstream(path) << text;
  std::stringstream committed;
  committed << std::ifstream(path).rdbuf();
  INFO("after a change of the launches: BERT_HPC_WRITE_LAUNCHES=1 test_train [launches], then roofline.py");
  CHECK(committed.str() == text);
}

TEST_CASE("gradients of a model on GPUs are sent in about a dozen messages") {
  model::ModelConfig base;  // bert-base-uncased
  base.vocab_size = 30522;
  base.label_names = {"a", "b"};
  for (const auto& head : {test::classification_head, test::masked_lm_head}) {
    const core::ParameterStore store(model::model_parameters(base, head, 2), core::ParameterStore::Arenas::none,
                                     train::shard_alignment(false, 8));
    const std::int64_t elements = train::usual_bucket_elements(store.arena_size(), true);
    CHECK(elements == store.arena_size() / 12);
    CHECK(train::plan_shards(store, {.zero = 1, .bucket_elements = elements}, 8).buckets.size() <= 16);
  }
  CHECK(train::usual_bucket_elements(1'000'000'000, true) == std::int64_t{1} << 25);
  CHECK(train::usual_bucket_elements(1'000'000, true) == std::int64_t{1} << 22);
  CHECK(train::usual_bucket_elements(1'000'000'000, false) == std::int64_t{1} << 19);
}
