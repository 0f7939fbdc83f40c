#include "bert_hpc/train/pipeline_plan.hpp"

#include <algorithm>
#include <numeric>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/distinct_sublayers.hpp"
#include "bert_hpc/train/timeline.hpp"

namespace bert_hpc::train {
namespace {

using Kind = Instruction::Kind;

template <class Cost>
model::ModelCosts costs_of(const ModelSeconds& model, const Cost& cost) {
  model::ModelCosts costs{.embeddings = cost(model.embeddings)};
  for (const PieceSeconds& sublayer : model.sublayers) costs.sublayers.push_back(cost(sublayer));
  return costs;
}

class Planner {
 public:
  explicit Planner(const PipelineQuestion& question) : q_(question), parts_(q_.stages * q_.virtual_stages) {
    core::require(q_.seconds.size() == static_cast<std::size_t>(q_.stages) && !q_.micro_batches.empty(),
                  "a pipeline is planned from the times of every stage and some numbers of micro-batches");
  }

  PipelinePlan plan(int micro_batches) const {
    const double tokens = q_.tokens / micro_batches;
    PipelinePlan plan;
    plan.micro_batches = micro_batches;
    plan.balance = q_.balance.empty() ? cut(tokens) : q_.balance;
    PipelineDurations durations;
    durations.compute = [&](int stage, const Instruction& i) { return seconds(plan.balance, stage, i, tokens); };
    durations.transfer = [&](int from, int, const Message& message) {
      const bool read = sublayer_after(plan.balance, q_.stages, from, message) > q_.selects_from;
      return tokens * (read ? q_.head_share : 1) * q_.message_per_token;
    };
    durations.latency = [&](int, int) { return q_.latency; };
    const Timeline timeline = play(make_schedules(q_.kind, q_.stages, micro_batches, q_.virtual_stages), durations);
    plan.seconds = timeline.seconds;
    plan.bubble = bubble(timeline);
    return plan;
  }

 private:
  const ModelSeconds& of_part(int part) const { return q_.seconds[static_cast<std::size_t>(part % q_.stages)]; }

  std::vector<std::int64_t> cut(double tokens) const {
    std::vector<model::ModelCosts> costs;
    for (int part = 0; part < parts_; ++part) costs.push_back(of_part(part).of(tokens));
    return model::balanced_counts(costs);
  }

  static double piece_seconds(const PieceSeconds& piece, Kind kind, double tokens) {
    switch (kind) {
      case Kind::forward:
        return piece.forward.of(tokens);
      case Kind::backward_input:
        return piece.backward_input.of(tokens);
      case Kind::backward_weight:
        return piece.backward_weight.of(tokens);
      default:
        return piece.backward_input.of(tokens) + piece.backward_weight.of(tokens);
    }
  }

  double seconds(const std::vector<std::int64_t>& balance, int stage, const Instruction& i, double tokens) const {
    const int part = i.virtual_stage * q_.stages + stage;
    const auto piece = [&](const PieceSeconds& of) { return piece_seconds(of, i.kind, tokens); };
    const std::int64_t first = std::accumulate(balance.begin(), balance.begin() + part, std::int64_t{0});
    return costs_of(of_part(part), piece).of(first, first + balance[static_cast<std::size_t>(part)]);
  }

  const PipelineQuestion& q_;
  int parts_;
};

}  // namespace

PassSeconds fit_line(double tokens_a, double seconds_a, double tokens_b, double seconds_b) {
  if (tokens_a > tokens_b) return fit_line(tokens_b, seconds_b, tokens_a, seconds_a);
  const double tokens = tokens_a + tokens_b, seconds = seconds_a + seconds_b;
  if (tokens <= 0) return {.fixed = seconds / 2};
  // With closer points, the slope would be mostly noise.
  if (tokens_b < 1.25 * tokens_a) return {.per_token = seconds / tokens};
  const double slope = (seconds_b - seconds_a) / (tokens_b - tokens_a), fixed = seconds_a - slope * tokens_a;
  if (slope < 0) return {.fixed = seconds / 2};
  if (fixed < 0) return {.per_token = seconds / tokens};
  return {.fixed = fixed, .per_token = slope};
}

ModelSeconds modelled_seconds(const model::ModelPlan& plan, double length, double head_share, int tensor,
                              const core::MachineDescription& machine) {
  // For fixed lengths and shares, work is linear in the tokens, so two points determine it.
  const auto piece = [&](const model::ModelRange& range) {
    const double tokens = 1024;
    const layers::BatchShape full{
        .tokens = tokens, .squared_lengths = tokens * length, .logit_positions = tokens * head_share};
    const layers::PassWork none = range_costs(plan, range, {}, tensor).work;
    const layers::PassWork all = range_costs(plan, range, full, tensor).work;
    const auto line = [&](const layers::Work& least, const layers::Work& most) {
      return fit_line(0, model::seconds(least, machine), tokens, model::seconds(most, machine));
    };
    return PieceSeconds{.forward = line(none.forward, all.forward),
                        .backward_input = line(none.backward_input, all.backward_input),
                        .backward_weight = line(none.backward_weight, all.backward_weight)};
  };
  ModelSeconds seconds{.embeddings = piece({.embeddings = true, .head = false})};
  for (std::int64_t i = 0; i < plan.sublayer_count(); ++i) {
    seconds.sublayers.push_back(piece(model::range_of_sublayer(plan, i)));
  }
  return seconds;
}

model::ModelCosts ModelSeconds::of(double tokens) const {
  return costs_of(*this, [tokens](const PieceSeconds& piece) { return piece.of(tokens); });
}

std::int64_t sublayer_after(std::span<const std::int64_t> balance, int stages, int from, const Message& message) {
  const int part = message.virtual_stage * stages + from + (message.forward ? 1 : 0);
  return std::accumulate(balance.begin(), balance.begin() + part, std::int64_t{0});
}

PipelinePlan plan_pipeline(const PipelineQuestion& question) {
  const Planner planner(question);
  PipelinePlan best;
  for (const int micro_batches : question.micro_batches) {
    PipelinePlan plan = planner.plan(micro_batches);
    if (best.balance.empty() || plan.seconds < best.seconds) best = std::move(plan);
  }
  return best;
}

}  // namespace bert_hpc::train
