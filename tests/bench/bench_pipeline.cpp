// Bubbles of pipelines from pass times measured here: each stage of a model runs alone on this rank, its forward,
// backward_input, backward_weight and whole backward are timed in turn, and train/timeline plays the schedules with
// these times. So more stages than this machine has cores can be judged. Messages: activations at 5 GB/s and 5 µs.
//
// Usage: bench_pipeline [STAGES [MICRO_BATCHES [BLOCKS [HIDDEN [SEQUENCES [LENGTH]]]]]]
// (4 stages, 16 micro-batches of 4 sequences of 128 tokens, 8 blocks of 512)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/train/pipeline_plan.hpp"
#include "bert_hpc/train/timeline.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"

using namespace bert_hpc;
using Kind = train::Instruction::Kind;

namespace {

const layers::HeadKind head = test::classification_head;
constexpr std::int64_t outputs = 5;
constexpr int rounds = 7;

using PassTimes = std::map<Kind, double>;  // seconds

/// The passes of one stage on a full batch, the quickest of the rounds (others on the machine only add); both halves of
/// backward separately if `split`, else at once.
PassTimes measure(const model::ModelConfig& config, const model::ModelRange& range, const test::HostBatch& batch,
                  bool split) {
  core::ParameterStore store(model::model_parameters(config, head, outputs, range),
                             core::ParameterStore::Arenas::with_gradients);
  model::initialize_parameters(store, config, 1);
  model::Stage stage(config, head, outputs, range, store);
  const auto products = ops::make_matrix_product();
  const auto attention = ops::make_attention();
  layers::Engine engine{*products, *attention};
  const core::MicroBatch& view = batch.view();
  const std::int64_t tokens = view.tokens.count, length = view.max_length, sequences = view.sequences;
  core::Workspace workspace;
  const layers::BatchBounds bounds{.tokens = tokens,
                                   .sequences = sequences,
                                   .max_length = length,
                                   .selected = sequences,
                                   .dropout_tiles = attention->dropout_tiles(length, config.head_dim())};
  stage.plan(workspace, bounds, {.slots = 1, .deferred = split ? 1 : 0});
  workspace.allocate();
  for (const ops::ProductExtents& e : model::product_extents({&stage, 1}, bounds)) products->reserve(e);
  attention->reserve(length, config.head_dim());
  const layers::StepContext pass{.batch = batch.view(), .training = true, .key0 = 1, .key1 = 2};

  std::map<Kind, std::vector<double>> times;
  const auto timed = [&times](Kind kind, const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    times[kind].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  };
  const auto fill = [](core::Tensor<float> x) {
    for (std::int64_t i = 0; i < x.size(); ++i) x.data[i] = 1e-3f * float(i % 97 - 48);
  };
  const auto nothing = [](std::int64_t) {};
  for (int round = 0; round < rounds; ++round) {
    stage.open(workspace, pass);
    if (!range.embeddings) fill(stage.input(0).as<float>());
    timed(Kind::forward, [&] {
      stage.forward(engine, pass);
      if (range.head) stage.loss(pass, 1.0f);
    });
    if (!range.head) fill(stage.d_output(0).as<float>());
    if (split) {
      timed(Kind::backward_input, [&] { stage.backward_input(engine, pass, workspace, 0, 0); });
      timed(Kind::backward_weight, [&] { stage.backward_weight(engine, pass, nothing, 0, 0); });
    } else {
      timed(Kind::backward, [&] { stage.backward(engine, pass, workspace, nothing); });
    }
  }
  PassTimes least;
  for (const auto& [kind, values] : times) least[kind] = *std::min_element(values.begin(), values.end());
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int index, int usual) { return argc > index ? std::atoi(argv[index]) : usual; };
  const int stages = number(1, 4), micro_batches = number(2, 16);
  const core::DeviceRuntime device;
  model::ModelConfig config;
  config.num_hidden_layers = number(3, 8);
  config.hidden_size = number(4, 512);
  config.num_attention_heads = config.hidden_size / 64;
  config.intermediate_size = 4 * config.hidden_size;
  config.vocab_size = 8192;
  const int sequences = number(5, 4), length = number(6, 128);
  const auto tokens = static_cast<std::size_t>(length * sequences);
  std::vector<std::int32_t> ids(tokens), types(tokens, 0);
  for (std::size_t i = 0; i < tokens; ++i) ids[i] = static_cast<std::int32_t>(i * 37 % 8192);
  test::HostBatch batch(ids, types, std::vector<std::int32_t>(static_cast<std::size_t>(sequences), length));
  batch.set_classes(std::vector<std::int32_t>(static_cast<std::size_t>(sequences), 1));

  std::vector<PassTimes> times;
  core::MachineDescription machine;
  machine.flops = 1e11;
  machine.memory_bandwidth = 2e10;
  const model::ModelPlan plan = model::make_plan(config, head, 2);
  const train::ModelSeconds counted = train::modelled_seconds(plan, length, 1.0 / length, 1, machine);
  for (const model::ModelRange& range :
       model::partition(stages, {}, counted.of(static_cast<double>(sequences * length)))) {
    times.push_back(measure(config, range, batch, true));
    PassTimes& t = times.back();
    t.merge(measure(config, range, batch, false));  // forward stays that of the first
    std::printf("stage %zu: blocks %s, forward %.2f ms, backward %.2f ms, inputs %.2f ms, weights %.2f ms\n",
                times.size() - 1, model::blocks_text(plan, range.first, range.last).c_str(), 1e3 * t[Kind::forward],
                1e3 * t[Kind::backward], 1e3 * t[Kind::backward_input], 1e3 * t[Kind::backward_weight]);
  }
  PassTimes mean;
  for (const PassTimes& stage : times) {
    for (const auto& [kind, seconds] : stage) mean[kind] += seconds / stages;
  }
  const double bytes = 4.0 * static_cast<double>(config.hidden_size * length * sequences);
  for (const bool even : {false, true}) {
    std::printf(even ? "with the mean of the stages' times everywhere:\n" : "with each stage's own times:\n");
    train::PipelineDurations durations;
    durations.compute = [&](int stage, const train::Instruction& i) {
      return even ? mean.at(i.kind) : times[static_cast<std::size_t>(stage)].at(i.kind);
    };
    durations.transfer = [bytes](int, int, const train::Message&) { return bytes / 5e9; };
    durations.latency = [](int, int) { return 5e-6; };
    for (const auto kind : {train::ScheduleKind::gpipe, train::ScheduleKind::one_f_one_b, train::ScheduleKind::zb_h1}) {
      const train::Timeline timeline = train::play(train::make_schedules(kind, stages, micro_batches), durations);
      std::printf("  %-6s %d stages, %d micro-batches: %.2f ms, bubble %.1f%%\n", train::schedule_name(kind).c_str(),
                  stages, micro_batches, 1e3 * timeline.seconds, 100 * train::bubble(timeline));
    }
  }
  return 0;
}
