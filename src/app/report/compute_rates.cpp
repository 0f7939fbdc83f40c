#include "app/report/compute_rates.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "app/plan/model_piece.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_costs.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "bert_hpc/train/optimizer.hpp"

namespace bert_hpc::app {
namespace {

constexpr double gemm_budget = 0.25, piece_budget = 0.4;  // seconds
constexpr std::int64_t hidden_sizes[] = {128, 256, 512, 768, 1024};
constexpr std::int64_t fewest_rows = 256, max_rows = 4096;  // of a micro-batch, tokens
constexpr double longest_round = 0.03;                      // seconds

model::ModelConfig block_config(std::int64_t hidden) {
  model::ModelConfig config;
  config.hidden_size = hidden;
  config.intermediate_size = 4 * hidden;
  config.num_attention_heads = hidden / 64;
  config.num_hidden_layers = 2;  // an ordinary block and the last one
  return config;
}

/// The GEMMs of an encoder block: forward, backward to the inputs, backward to the weights.
class BlockGemms {
 public:
  BlockGemms(std::int64_t hidden, std::int64_t rows, const ops::ProductSettings& settings)
      : rows_(rows),
        type_(settings.compute),
        store_(model::model_parameters(block_config(hidden), layers::sequence_head(), 2, block, {}),
               core::ParameterStore::Arenas::with_gradients),
        gemm_(ops::make_matrix_product("", settings)),
        x_(rows * 4 * hidden),
        y_(rows * 4 * hidden),
        z_(rows * 4 * hidden) {
    model::initialize_parameters(store_, block_config(hidden), 1);
    const model::ModelPlan plan = model::make_plan(block_config(hidden), layers::sequence_head(), 2);
    const layers::SublayerSettings &attention = plan.sublayers[0], &feed_forward = plan.sublayers[1];
    linear_ = {{attention.kind->linear_layers(attention)[0].name, hidden, 3 * hidden, false},  // of all three
               {attention.output, hidden, hidden, false},
               {feed_forward.kind->linear_layers(feed_forward)[0].name, hidden, 4 * hidden, true},
               {feed_forward.output, 4 * hidden, hidden, false}};
    gemm_->keep_weights(store_);
    gemm_->reserve({rows, 4 * hidden, 4 * hidden});
    for (const Linear& one : linear_) gemm_->tune({rows, one.in, one.out});
    for (core::Buffer<float>* values : {&x_, &y_, &z_}) {
      const core::Buffer<float> random(values->size());
      ops::fill_normal({random.data(), static_cast<std::size_t>(random.size())}, 0.03f, 1);
      const core::Matrix to = matrix(*values, 4 * hidden);
      ops::copy(core::Tensor<float>(random.data(), to.rows, to.columns), to);
    }
  }

  static double flops(std::int64_t hidden, std::int64_t rows) {
    return 72.0 * static_cast<double>(hidden) * static_cast<double>(hidden) * static_cast<double>(rows);
  }

  double run() {
    return seconds_of([this] {
      for (const Linear& one : linear_) run(one);
    });
  }

 private:
  struct Linear {
    std::string name;
    std::int64_t in = 0, out = 0;
    bool gelu = false;
  };
  static constexpr model::ModelRange block{.first = 0, .last = 2, .embeddings = false, .head = false};

  core::Matrix matrix(const core::Buffer<float>& memory, std::int64_t columns) const {
    return {memory.data(), rows_, columns, columns, type_};
  }

  void run(const Linear& one) {
    const int slice = store_.find(one.name + ".weight"), bias = store_.find(one.name + ".bias");
    const core::Tensor<const float> w(store_.value(slice).data, one.out, one.in);
    const core::Tensor<float> d_w(store_.gradient(slice).data, one.out, one.in);
    const core::Matrix x = matrix(x_, one.in), y = matrix(y_, one.out), z = matrix(z_, one.out);
    if (one.gelu) {
      gemm_->forward(x, w, {store_.value(bias).data, ops::Activation::gelu, z}, y);
    } else {
      gemm_->forward(x, w, store_.value(bias).data, y);
    }
    gemm_->backward_weight(y, x, d_w, store_.gradient(bias).data, ops::Write::accumulate);
    gemm_->backward_input(y, w, matrix(z_, one.in), ops::Write::replace);
  }

  std::int64_t rows_;
  core::DataType type_;
  core::ParameterStore store_;
  std::unique_ptr<ops::MatrixProduct> gemm_;
  core::Buffer<float> x_, y_, z_;
  std::vector<Linear> linear_;
};

/// Precisions that GEMMs of this build compute in, as in config::machine_precisions.
std::optional<ops::ProductSettings> settings_of(const std::string& precision) {
  ops::ProductSettings settings{.reproducible = false};
  if (precision == "fp32") return settings;
  if (precision == "bf16") settings.compute = core::DataType::bf16;
  if (precision == "fp16") settings.compute = core::DataType::fp16;
  if (precision == "tf32") settings.tf32 = true;
  const bool known = settings.compute != core::DataType::fp32 || (settings.tf32 && ops::has_tf32());
  return known ? std::optional(settings) : std::nullopt;
}

/// FLOP/s by hidden size.
std::vector<double> gemm_rates(comm::Communicator& world, const ops::ProductSettings& settings) {
  std::vector<double> rates;
  double last = 0;
  for (const std::int64_t hidden : hidden_sizes) {
    // As many rows as a short round allows, the same on every rank.
    const double fitting = last * longest_round / BlockGemms::flops(hidden, 1);
    const std::int64_t rows =
        last > 0 ? std::clamp(static_cast<std::int64_t>(fitting) / 64 * 64, fewest_rows, max_rows) : max_rows / 4;
    BlockGemms gemms(hidden, rows, settings);
    last = BlockGemms::flops(hidden, rows) / shared_seconds(world, gemm_budget, [&] { return gemms.run(); });
    rates.push_back(last);
  }
  return rates;
}

/// Bytes/s of the default optimizer: it reads value, gradient and states of each parameter, and writes value and
/// states.
double update_rate(comm::Communicator& world) {
  constexpr std::int64_t rows = 4096, columns = 2048;  // 128 MiB with gradients and moments: exceeds the caches
  core::ParameterStore store({{.name = "weight", .shape = {rows, columns}}},
                             core::ParameterStore::Arenas::with_gradients);
  const train::OwnedRange all{0, store.arena_size(), store.gradients().data(), nullptr};
  train::Optimizer optimizer({}, store, std::span(&all, 1));
  std::int64_t update = 0;
  const double seconds =
      shared_seconds(world, piece_budget, [&] { return seconds_of([&] { optimizer.step(1e-4, ++update, 1.0); }); });
  const double bytes =
      static_cast<double>(3 * sizeof(float)) + 2.0 * ops::bytes_per_parameter(optimizer.states().kinds());
  return bytes * static_cast<double>(store.arena_size()) / seconds;
}

/// A sublayer of a block on a micro-batch of sequences of equal length.
class Sublayer {
 public:
  enum Kind { attention, feed_forward };

  Sublayer(Kind kind, std::int64_t hidden, std::int64_t sequences, std::int32_t length)
      : range_{.first = kind == attention ? 0 : 1,
               .last = kind == attention ? 1 : 2,
               .embeddings = false,
               .head = false},
        config_(block_config(hidden)),
        reader_(data_of(config_, sequences, length)),
        loader_(reader_, options_of(config_, sequences, length)),
        shape_{.tokens = static_cast<double>(sequences * length),
               .squared_lengths = static_cast<double>(sequences) * length * length,
               .logit_positions = static_cast<double>(sequences)} {
    MeasuredModel how{.outputs = 2, .kernels = "tuned", .attention = "fused", .products = {.reproducible = false}};
    piece_.emplace(config_, how, range_, layers::TensorRank{0, 1}, layers::TensorGroup({0, 1}, exchange_),
                   loader_.next().micro_batches.front().batch);
  }

  /// Collective. Seconds of forward and backward.
  double measure(comm::Communicator& world) {
    return shared_seconds(world, piece_budget, [this] {
      const PassTimes times = piece_->run();
      return times[0] + times[1] + times[2];
    });
  }

  layers::Work work() const {
    const layers::PassWork passes =
        model::range_costs(model::make_plan(config_, layers::sequence_head(), 2), range_, shape_).work;
    layers::Work sum = passes.forward;
    sum += passes.backward_input;
    sum += passes.backward_weight;
    return sum;
  }

 private:
  static data::PlannedData data_of(const model::ModelConfig& config, std::int64_t sequences, std::int32_t length) {
    data::PlannedData planned;
    planned.info.vocabulary_size = config.vocab_size;
    planned.lengths.assign(static_cast<std::size_t>(sequences), length);
    return planned;
  }
  static data::BatchLoaderOptions options_of(const model::ModelConfig& config, std::int64_t sequences,
                                             std::int32_t length) {
    data::BatchLoaderOptions options;
    options.plan = {.global_batch = sequences, .hidden = config.hidden_size, .micro_tokens = sequences * length};
    options.sampler.order = data::Order::file;
    options.steps = 1;
    return options;
  }

  model::ModelRange range_;
  model::ModelConfig config_;
  data::ShardReader reader_;
  data::BatchLoader loader_;
  layers::BatchShape shape_;
  layers::TensorExchange exchange_;
  std::optional<ModelPiece> piece_;
};

/// The machine with the rates known so far; work of unknown rate takes no time.
core::MachineDescription known_machine(const config::MachineFile& file) {
  constexpr double endless = 1e30;
  core::MachineDescription machine;
  machine.flops = 1;
  for (std::size_t i = 0; i < file.gemm_hidden.size(); ++i) {
    machine.gemm.push_back({file.gemm_hidden[i], file.gemm_gflops[0][i] * 1e9});
  }
  machine.memory_bandwidth = file.memory_gb_per_second * 1e9;
  machine.activation_bandwidth = file.activation_gb_per_second.value_or(endless) * 1e9;
  machine.attention_flops = endless;
  return machine;
}

/// Seconds of a sublayer not explained by the known rates, at least a hundredth of its time.
double remainder(const Sublayer& sublayer, double hidden, double seconds, const config::MachineFile& file) {
  const double known = model::seconds(sublayer.work(), core::at_hidden(known_machine(file), hidden));
  return std::max(seconds - known, 0.01 * seconds);
}

void measure_sublayers(comm::Communicator& world, config::MachineFile& file) {
  double moved = 0, seconds = 0;
  for (const std::int64_t hidden : {128, 256}) {
    Sublayer sublayer(Sublayer::feed_forward, hidden, 16, 64);
    seconds += remainder(sublayer, static_cast<double>(hidden), sublayer.measure(world), file);
    moved += sublayer.work().moved;
  }
  file.activation_gb_per_second = moved / seconds / 1e9;

  // Two lengths give two equations for two unknowns: t = flops / rate + rows · row.
  Sublayer quick(Sublayer::attention, 256, 64, 16), slow(Sublayer::attention, 256, 8, 128);
  const double a = remainder(quick, 256, quick.measure(world), file);
  const double b = remainder(slow, 256, slow.measure(world), file);
  const layers::Work one = quick.work(), other = slow.work();
  const double per_flop = (b * one.attention_rows - a * other.attention_rows) /
                          (other.attention * one.attention_rows - one.attention * other.attention_rows);
  // Attribute at least a tenth of the longer sequences' time to operations, and at most all of it, but never a rate
  // above that of GEMMs, which rounds beside other programs would give.
  const double fastest = *std::max_element(file.gemm_gflops[0].begin(), file.gemm_gflops[0].end()) * 1e9;
  const double flop = std::max(std::clamp(per_flop, 0.1 * b / other.attention, b / other.attention), 1 / fastest);
  file.attention_gflops = 1 / flop / 1e9;
  file.attention_row_ns = std::max(0.0, (a - flop * one.attention) / one.attention_rows) * 1e9;

  Sublayer tiny(Sublayer::feed_forward, 128, 4, 16);
  const double rest = tiny.measure(world) - model::seconds(tiny.work(), core::at_hidden(known_machine(file), 128));
  file.pass_us = std::max(0.0, rest / tiny.work().passes) * 1e6;
}

}  // namespace

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  core::wait_for_kernels();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double shared_seconds(comm::Communicator& world, double budget, const std::function<double()>& round) {
  round();  // warm up pages and caches
  const double slowest = world.maximum(round());
  const auto rounds = static_cast<std::size_t>(std::clamp(budget / std::max(slowest, 1e-9), 3.0, 200.0));
  std::vector<double> times(rounds);
  world.barrier();
  for (double& time : times) time = round();
  const auto quarter = times.begin() + static_cast<std::ptrdiff_t>(rounds / 4);
  std::nth_element(times.begin(), quarter, times.end());
  return world.sum(*quarter) / world.size();
}

void measure_compute(comm::Communicator& world, config::MachineFile& file) {
  for (const std::int64_t hidden : hidden_sizes) file.gemm_hidden.push_back(static_cast<double>(hidden));
  for (std::size_t p = 0; p < config::machine_precisions.size(); ++p) {
    const auto settings = settings_of(config::machine_precisions[p]);
    if (!settings) continue;
    for (const double rate : gemm_rates(world, *settings)) file.gemm_gflops[p].push_back(rate / 1e9);
    file.gflops[p] = *std::max_element(file.gemm_gflops[p].begin(), file.gemm_gflops[p].end());
  }
  file.memory_gb_per_second = update_rate(world) / 1e9;
  measure_sublayers(world, file);
}

}  // namespace bert_hpc::app
