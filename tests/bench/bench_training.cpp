// Our side of the training benchmark: whole steps (forward, backward, gradient sums, clipping, AdamW) on the sequences
// of a case file, see cases.py; run.py runs it beside PyTorch. Under mpirun the ranks share every batch.
//
// Usage: bench_training --case CASE.json [--steps N] [--warmup W] [--products native|onednn|blas]
//                       [--compute fp32|tf32|bf16|fp16|fp8] [--clock host|device] [--range NAME]
//                       [--trains all|head|bitfit|lora|dora] [--targets NAME,NAME…] [--rank R]
//                       [--epilogues on|off|all] [--weight-gradients auto|bf16|fp32]
// Prints one line of JSON: {"program", "compute", "ranks", "threads", "seconds": [of each timed step], "clock",
// "sections": {name: seconds in all timed steps}, "bytes": {purpose: planned}}. --trains,
// --targets, --rank: [model] trainable, [model.lora] targets and rank; --epilogues, --weight-gradients: [run] epilogues
// and [precision] weight_gradients. With --clock device sections are the GPU's own
// times (CUDA events); with host, the default, a section ends when its last kernel is launched. --range: after the
// timed steps follows one more inside a profiler range (NVTX) of this name, for ncu --nvtx --nvtx-include NAME/.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/profiler_range.hpp"
#include "bert_hpc/core/timers.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/low_rank.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/model/trainable.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/fusion.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/fp8_step.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "bert_hpc/train/weight_gradients.hpp"
#include "support/device_batch.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "support/type_named.hpp"

using namespace bert_hpc;
using nlohmann::json;

namespace {

const layers::HeadKind kind = test::classification_head;

constexpr std::size_t sections_of_step = 8;  // at most

struct Options {
  std::string path, products, range, trains = "all", weight_gradients = "auto";
  model::LowRankSettings low_rank;
  test::Compute compute{core::DataType::fp32};
  bool fp8 = false;  // beside compute = bf16
  int steps = -1, warmup = -1;
  bool device_clock = false;
};

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw core::Error(core::ExitCode::input, name + " needs a value.");
    const std::string value = argv[++i];
    if (name == "--case") {
      options.path = value;
    } else if (name == "--products") {
      options.products = value;
    } else if (name == "--compute") {
      options.fp8 = value == "fp8";
      options.compute = test::compute_named(options.fp8 ? "bf16" : value);
    } else if (name == "--clock" && (value == "host" || value == "device")) {
      options.device_clock = value == "device";
    } else if (name == "--trains") {
      options.low_rank.magnitudes = value == "dora";
      options.trains = value == "dora" ? "lora" : value;
    } else if (name == "--targets") {
      std::istringstream names(value);
      for (std::string target; std::getline(names, target, ',');) options.low_rank.targets.push_back(target);
    } else if (name == "--rank") {
      options.low_rank.rank = std::stoll(value);
    } else if (name == "--epilogues") {
      ops::set_fusion(ops::fusion_of(value));
    } else if (name == "--weight-gradients") {
      options.weight_gradients = value;
    } else if (name == "--range") {
      options.range = value;
    } else if (name == "--steps") {
      options.steps = std::stoi(value);
    } else if (name == "--warmup") {
      options.warmup = std::stoi(value);
    } else {
      throw core::Error(core::ExitCode::input,
                        "unknown option " + name + " " + value + "; see the head of this program's source.");
    }
  }
  return options;
}

// A step's batch: this rank's share of it, where kernels read it.
struct Share {
  std::unique_ptr<test::DeviceBatch> batch;
  std::int64_t sequences_of_step = 0;
};

// Each rank gets the sequences whose middle token lies in its part of the batch: contiguous, equal in tokens.
std::vector<Share> make_shares(const json& case_file, std::int64_t vocabulary, int rank, int ranks) {
  std::vector<Share> shares;
  std::uint32_t state = 12345;
  const auto next_id = [&state, vocabulary] {
    state = 1664525u * state + 1013904223u;
    return static_cast<std::int32_t>(5 + (state >> 8) % static_cast<std::uint32_t>(vocabulary - 5));
  };
  const std::int32_t labels = case_file.at("labels").get<std::int32_t>();
  for (const json& list : case_file.at("lengths")) {
    const auto lengths = list.get<std::vector<std::int32_t>>();
    std::int64_t total = 0, before = 0;
    for (const std::int32_t length : lengths) total += length;
    std::vector<std::int32_t> ids, mine, classes;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const bool here = (2 * before + lengths[i]) * ranks / (2 * total) == rank;
      before += lengths[i];
      for (std::int32_t t = 0; t < lengths[i]; ++t) {
        const std::int32_t id = next_id();
        if (here) ids.push_back(id);
      }
      if (!here) continue;
      mine.push_back(lengths[i]);
      classes.push_back(static_cast<std::int32_t>(i) % labels);
    }
    std::vector<std::int32_t> types(ids.size(), 0);
    test::HostBatch batch(ids, types, mine);
    batch.set_classes(classes);
    shares.push_back({std::make_unique<test::DeviceBatch>(batch.view()), static_cast<std::int64_t>(lengths.size())});
  }
  return shares;
}

layers::BatchBounds bounds_of(const std::vector<Share>& shares) {
  layers::BatchBounds bounds;
  for (const Share& share : shares) {
    const core::MicroBatch& batch = share.batch->view();
    bounds.tokens = std::max(bounds.tokens, batch.tokens.count);
    bounds.sequences = std::max(bounds.sequences, batch.sequences);
    bounds.max_length = std::max(bounds.max_length, batch.max_length);
  }
  bounds.selected = bounds.sequences;
  return bounds;
}

json seconds_of(const core::Timers& timers) {
  json sections = json::object();
  for (const core::Timers::Section& section : timers.sections())
    sections[std::string(section.name)] = section.work_seconds();
  return sections;
}

model::ModelPlan plan_of(const Options& options, const model::ModelConfig& config) {
  model::ModelPlan plan = model::make_plan(config, kind, config.num_labels(), options.compute.type);
  if (options.trains == "lora") model::add_adapters(plan, options.low_rank, 0);
  model::set_trains(plan, model::trainable_parameters(plan, {.parameters = options.trains}));
  return plan;
}

// The encoder's products in 8-bit numbers, as app::ModelKernels makes them.
std::unique_ptr<ops::Fp8Product> make_fp8(const model::Stage& bert, const layers::BatchBounds& bounds,
                                          ops::MatrixProduct& rounded, core::DataType weight_gradients) {
  const std::vector<layers::LinearWeight> weights = bert.block_weights();
  std::vector<ops::Fp8Layer> all;
  for (const layers::LinearWeight& w : weights) all.push_back({w.slice, w.name, w.weights});
  auto products =
      ops::make_fp8_product(rounded, std::move(all), {.reproducible = false, .weight_gradients = weight_gradients});
  const std::vector<ops::ProductExtents> extents = model::product_extents(weights, bounds);
  for (const ops::ProductExtents& e : extents) products->reserve(e);
  for (const ops::ProductExtents& e : extents) products->tune(e);
  return products;
}

json run(const Options& options, comm::Communicator& world, int threads) {
  std::ifstream file(options.path);
  if (!file) throw core::Error(core::ExitCode::input, "no case file " + options.path + "; cases.py writes them.");
  const json case_file = json::parse(file);
  model::ModelConfig config = model::parse_hf_config(case_file.at("config").dump(), options.path);
  config.label_names = model::default_label_names(case_file.at("labels").get<std::int64_t>());
  const int steps = options.steps < 0 ? case_file.at("steps").get<int>() : options.steps;
  const int warmup = options.warmup < 0 ? case_file.at("warmup").get<int>() : options.warmup;

  core::ParameterStore::Memory memory = train::shard_memory({}, world);
  // A step is one micro-batch.
  memory.product_gradients = train::weight_gradient_type(
      {.compute = options.compute.type, .gpu = core::is_gpu_build(), .micro_batches = 1, .replicas = world.size()},
      options.weight_gradients);
  const bool replaces =
      train::replaces_first_gradients(core::is_gpu_build(), false) || memory.product_gradients != core::DataType::fp32;
  const model::ModelPlan plan = plan_of(options, config);
  core::ParameterStore store(model::model_parameters(plan, model::whole(plan)),
                             core::ParameterStore::Arenas::with_gradients, train::shard_alignment(false, world.size()),
                             memory);
  model::initialize_parameters(store, config, 1);
  layers::set_magnitudes(store);
  model::Stage bert(plan, model::whole(plan), store, {});
  const auto products = ops::make_matrix_product(options.products, {.compute = options.compute.type,
                                                                    .tf32 = options.compute.tf32,
                                                                    .reproducible = false,
                                                                    .weight_gradients = memory.product_gradients});
  const auto attention = ops::make_attention("fused", options.compute.type, options.compute.tf32);
  layers::Engine engine{*products, *attention};
  std::vector<train::ArenaRange> replaced;
  if (replaces) {  // as train::Pipeline
    engine.weight_gradients = ops::Write::replace;
    replaced = train::replaced_gradients(store);
  }
  const std::vector<Share> shares = make_shares(case_file, config.vocab_size, world.rank(), world.size());
  layers::BatchBounds bounds = bounds_of(shares);
  bounds.dropout_tiles = attention->dropout_tiles(bounds.max_length, config.head_dim());
  core::Workspace workspace;
  bert.plan(workspace, bounds, {});
  workspace.allocate();
  products->keep_weights(store);
  const std::vector<ops::ProductExtents> extents = model::product_extents({&bert, 1}, bounds);
  for (const ops::ProductExtents& e : extents) products->reserve(e);
  for (const ops::ProductExtents& e : extents) {
    if (e.rows == bounds.tokens) products->tune(e);
  }
  std::unique_ptr<ops::Fp8Product> fp8;
  if (options.fp8) fp8 = make_fp8(bert, bounds, *products, memory.product_gradients);
  engine.fp8 = fp8.get();
  const auto alone = comm::make_self_communicator();  // the tensor group
  comm::Communicator& replicas = world.size() == 1 ? *alone : world;
  attention->reserve(bounds.max_length, config.head_dim(), plan.has_relative_positions());
  core::Workspace scratch;
  for (const layers::LinearWeight& weight : bert.linear_weights()) {
    layers::plan_scratch(weight, bounds, options.compute.type, scratch);
  }
  scratch.allocate();
  engine.scratch = &scratch;
  layers::RowFactors factors(store);
  engine.factors = &factors;
  const auto sums = train::make_data_parallel(world, store);
  train::Optimizer optimizer({}, store, sums->owned(), false, products->kept_weights(), replaced);

  core::Timers timers;  // on GPUs without --clock device up to a section's last launch
  if (options.device_clock) timers.use_device_clock(core::make_device_clock(2 * sections_of_step), sections_of_step);
  const auto one_step = [&](int step) {
    const Share& share = shares[static_cast<std::size_t>(step) % shares.size()];
    core::Dropout key;
    ops::set_dropout_key(key, 1, static_cast<std::uint64_t>(step));
    const layers::StepContext pass{.batch = share.batch->view(), .training = true, .key0 = key.key0, .key1 = key.key1};
    {
      const auto timed = timers.measure("forward");
      if (fp8) train::begin_fp8_step(*fp8, *alone);
      sums->begin_step(1);
      bert.open(workspace, pass);
      bert.forward(engine, pass);
    }
    {
      const auto timed = timers.measure("loss");
      bert.loss(pass, 1.0f / static_cast<float>(share.sequences_of_step));
    }
    {
      const auto timed = timers.measure("backward");
      bert.backward(engine, pass, workspace, [&sums](std::int64_t begin) { sums->finished(begin); });
    }
    // As the trainer: one rank alone launches the update before it knows the norm.
    train::GradientNorm& norm = sums->norm();
    const bool at_once = norm.is_alone();
    double size = 0;
    {
      const auto timed = timers.measure("sums");
      sums->end_micro_batch();
      sums->end_step();
      if (at_once) norm.start({}, optimizer.max_gradient_norm(), 1);
      if (!at_once) size = norm();
    }
    {
      const auto timed = timers.measure("optimizer");
      if (at_once) optimizer.step_on_device(2e-5, step + 1, norm.factor());
      if (!at_once) optimizer.step(2e-5, step + 1, size);
      sums->share_parameters();
      if (fp8) train::end_fp8_step(*fp8, *alone, replicas, false);
    }
    core::wait_for_kernels();
    if (at_once) size = norm.result();
    if (!(size < 1e9)) throw core::Error(core::ExitCode::numerical, "the gradient's norm is not finite.");
    timers.collect();
  };

  json seconds = json::array();
  for (int step = 0; step < warmup + steps; ++step) {
    if (step == warmup) timers.clear();
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    one_step(step);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (step >= warmup) seconds.push_back(world.maximum(taken.count()));
  }
  const json report = {{"program", "bert_hpc, " + (fp8 ? fp8->name() : products->name()) + ", " + attention->name()},
                       {"compute", fp8 ? "fp8" : options.compute.name()},
                       {"ranks", world.size()},
                       {"threads", threads},
                       {"seconds", seconds},
                       {"trains", options.low_rank.magnitudes ? "dora" : options.trains},
                       {"trained", store.trainable_parameters()},
                       {"bytes",
                        {{"parameters", store.arena_size() * 4},
                         {"activations", workspace.bytes()},
                         {"adapters", scratch.bytes() + factors.bytes()}}},
                       {"clock", timers.has_device_clock() ? "device" : "host"},
                       {"sections", seconds_of(timers)}};
  if (!options.range.empty()) {
    core::begin_profiler_range(options.range.c_str());
    one_step(warmup + steps);
    core::end_profiler_range();
  }
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  comm::MpiRuntime mpi(&argc, &argv);
  const auto world = comm::make_world_communicator();
  try {
    core::DeviceRuntime device;
    const json report = run(parse_options(argc, argv), *world, device.threads());
    if (world->rank() == 0) std::printf("%s\n", report.dump().c_str());
    return 0;
  } catch (const core::Error& error) {
    std::fprintf(stderr, "bench_training: %s\n", error.what());
    comm::abort_all_ranks(static_cast<int>(error.code()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_training: %s\n", error.what());
    comm::abort_all_ranks(static_cast<int>(core::ExitCode::input));
  }
}
