#include "app/plan/layer_profiler.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "app/plan/model_piece.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/model/distinct_sublayers.hpp"
#include "bert_hpc/model/make_plan.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::size_t pass_kinds = 3;      // as train::PieceSeconds lists them
constexpr double seconds_of_rounds = 0.3;  // of a piece, within these numbers of rounds:
constexpr double fewest_rounds = 5, max_rounds = 50;
constexpr double noise = 1.1;  // stages that differ by less are taken to be alike

/// The parts of a model that are timed: the embeddings, then one of each distinct sublayer.
struct Pieces {
  std::vector<model::DistinctSublayer> sublayers;
  std::vector<model::ModelRange> ranges;

  explicit Pieces(const model::ModelPlan& plan) : sublayers(model::distinct_sublayers(plan)) {
    ranges.push_back({.first = 0, .last = 1, .embeddings = true, .head = false});
    for (const model::DistinctSublayer& distinct : sublayers) {
      ranges.push_back(model::range_of_sublayer(plan, distinct.sublayers.front()));
    }
  }
};

/// Tokens of a micro-batch and what every piece took for it.
struct Measurement {
  double tokens = 0;
  std::vector<PassTimes> seconds;
};

const core::MicroBatch* middle(const data::LoadedStep& step) {
  const std::size_t count = step.micro_batches.size();
  for (std::size_t i = 0; i < count; ++i) {  // from the middle on: shorter sequences lie before it, longer ones behind
    const core::MicroBatch& batch = step.micro_batches[(count / 2 + i) % count].batch;
    if (batch.sequences > 0) return &batch;
  }
  return nullptr;
}

/// Collective over all ranks. Tokens are 0 if this rank's replica has nothing to do.
Measurement measure(const comm::ProcessGroups& groups, const model::ModelConfig& config, const MeasuredModel& how,
                    const Pieces& pieces, data::BatchLoader& loader) {
  const core::MicroBatch* const batch = middle(loader.next());
  Measurement result;
  const layers::TensorRank tensor_rank{groups.coordinates.tensor, groups.shape.tensor};
  // What a group has allocated stays as long as it does: this one ends with the measurement.
  const auto tensor = groups.tensor->split(0, groups.tensor->rank());
  layers::TensorExchange exchange;
  if (batch != nullptr) exchange.connect(*tensor, batch->tokens.count, config.hidden_size, how.storage);
  const layers::TensorGroup group(tensor_rank, exchange);
  result.seconds.resize(pieces.ranges.size());
  for (std::size_t p = 0; p < pieces.ranges.size(); ++p) {
    std::optional<ModelPiece> piece;
    collectively(groups.world, [&] {
      if (batch != nullptr) piece.emplace(config, how, pieces.ranges[p], tensor_rank, group, *batch);
    });
    if (piece) piece->run();  // caches and pages get warm
    const PassTimes first = piece ? piece->run() : PassTimes{};
    // The same number everywhere: all at the same time, as they will later share the machine.
    const double slowest = groups.world.maximum(std::accumulate(first.begin(), first.end(), 0.0));
    const double rounds = std::clamp(seconds_of_rounds / std::max(slowest, 1e-9), fewest_rounds, max_rounds);
    if (!piece) continue;
    PassTimes& least = result.seconds[p];
    least = first;
    for (int round = 1; round < rounds; ++round) {
      const PassTimes times = piece->run();
      for (std::size_t i = 0; i < pass_kinds; ++i) least[i] = std::min(least[i], times[i]);
    }
  }
  for (std::size_t i = 0; i < pass_kinds; ++i) {  // the first piece has the first sublayer too
    result.seconds[0][i] = std::max(0.0, result.seconds[0][i] - result.seconds[1][i]);
  }
  if (batch != nullptr) result.tokens = static_cast<double>(batch->tokens.count);
  return result;
}

/// Gives every stage the mean of all where the largest and the least sum of a stage's times are near to each other.
void even_out(std::vector<double>& seconds, int stages) {
  const std::size_t each = seconds.size() / static_cast<std::size_t>(stages);
  std::vector<double> mean(each, 0.0);
  double least = 1e300, most = 0;
  for (std::size_t begin = 0; begin < seconds.size(); begin += each) {
    double sum = 0;
    for (std::size_t i = 0; i < each; ++i) {
      sum += seconds[begin + i];
      mean[i] += seconds[begin + i] / stages;
    }
    least = std::min(least, sum);
    most = std::max(most, sum);
  }
  if (most > noise * least) return;
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = mean[i % each];
}

}  // namespace

std::vector<train::ModelSeconds> profile_layers(const comm::ProcessGroups& groups, const model::ModelConfig& config,
                                                const MeasuredModel& model, data::ShardReader& reader,
                                                const data::BatchLoaderOptions& batches) {
  std::optional<data::BatchLoader> loader;
  collectively(groups.world, [&] { loader.emplace(reader, batches); });
  const model::ModelPlan plan = model::make_plan(config, model.kind, model.outputs, model.storage);
  const Pieces pieces(plan);
  const std::size_t count = pieces.ranges.size();
  const Measurement measured = measure(groups, config, model, pieces, *loader);
  // Seconds a token, as replicas measured micro-batches of different sizes.
  const auto at = [count](int stage, std::size_t piece, std::size_t pass) {
    return (static_cast<std::size_t>(stage) * count + piece) * pass_kinds + pass;
  };
  std::vector<double> seconds(at(groups.shape.pipeline, 0, 0), 0.0);
  for (std::size_t piece = 0; piece < count; ++piece) {
    for (std::size_t pass = 0; measured.tokens > 0 && pass < pass_kinds; ++pass) {
      seconds[at(groups.coordinates.pipeline, piece, pass)] = measured.seconds[piece][pass] / measured.tokens;
    }
  }
  groups.world.all_reduce(seconds, comm::Reduction::maximum);
  even_out(seconds, groups.shape.pipeline);
  std::vector<train::ModelSeconds> result;
  for (int stage = 0; stage < groups.shape.pipeline; ++stage) {
    const auto piece = [&](std::size_t p) {
      return train::PieceSeconds{.forward = {.per_token = seconds[at(stage, p, 0)]},
                                 .backward_input = {.per_token = seconds[at(stage, p, 1)]},
                                 .backward_weight = {.per_token = seconds[at(stage, p, 2)]}};
    };
    train::ModelSeconds of_stage{.embeddings = piece(0), .sublayers = {plan.sublayers.size(), train::PieceSeconds{}}};
    for (std::size_t p = 1; p < count; ++p) {
      for (const std::int64_t i : pieces.sublayers[p - 1].sublayers) {
        of_stage.sublayers[static_cast<std::size_t>(i)] = piece(p);
      }
    }
    result.push_back(std::move(of_stage));
  }
  return result;
}

}  // namespace bert_hpc::app
