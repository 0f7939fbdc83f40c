#include "bert_hpc/train/pipeline_plan.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/partition.hpp"
#include "bert_hpc/train/timeline.hpp"

namespace bert_hpc::train {
namespace {

using Kind = Instruction::Kind;

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
    durations.transfer = [&](int, int, const Message&) { return tokens * q_.message_per_token; };
    durations.latency = [&](int, int) { return q_.latency; };
    const Timeline timeline = play(make_schedules(q_.kind, q_.stages, micro_batches, q_.virtual_stages), durations);
    plan.seconds = timeline.seconds;
    plan.bubble = bubble(timeline);
    return plan;
  }

 private:
  const ModelSeconds& of_part(int part) const { return q_.seconds[static_cast<std::size_t>(part % q_.stages)]; }

  std::vector<std::int64_t> cut(double tokens) const {
    std::vector<model::PartCosts> costs;
    for (int part = 0; part < parts_; ++part) {
      const ModelSeconds& model = of_part(part);
      const double block = model.block.of(tokens);
      costs.push_back({.block = block,
                       .extra = (part == 0 ? model.embeddings.of(tokens) : 0) +
                                (part + 1 == parts_ ? model.last.of(tokens) - block : 0)});
    }
    return model::balanced_counts(q_.blocks, costs);
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
    const ModelSeconds& model = of_part(part);
    const bool head = part + 1 == parts_;
    const auto whole = static_cast<double>(balance[static_cast<std::size_t>(part)] - (head ? 1 : 0));
    double sum = whole * piece_seconds(model.block, i.kind, tokens);
    if (part == 0) sum += piece_seconds(model.embeddings, i.kind, tokens);
    if (head) sum += piece_seconds(model.last, i.kind, tokens);
    return sum;
  }

  const PipelineQuestion& q_;
  int parts_;
};

}  // namespace

PassSeconds fit_line(double tokens_a, double seconds_a, double tokens_b, double seconds_b) {
  if (tokens_a > tokens_b) return fit_line(tokens_b, seconds_b, tokens_a, seconds_a);
  const double tokens = tokens_a + tokens_b, seconds = seconds_a + seconds_b;
  if (tokens <= 0) return {.fixed = seconds / 2};
  // Closer points than these tell more about noise than about the slope.
  if (tokens_b < 1.25 * tokens_a) return {.per_token = seconds / tokens};
  const double slope = (seconds_b - seconds_a) / (tokens_b - tokens_a), fixed = seconds_a - slope * tokens_a;
  if (slope < 0) return {.fixed = seconds / 2};
  if (fixed < 0) return {.per_token = seconds / tokens};
  return {.fixed = fixed, .per_token = slope};
}

ModelSeconds modelled_seconds(const ModelShape& model, double length, double head_share, int tensor,
                              const core::MachineDescription& machine) {
  // Work is a line over the tokens where lengths and shares stay: two points give it.
  const auto piece = [&](const PartShape& shape) {
    const double tokens = 1024;
    const MicroBatchShape full{.tokens = tokens, .squared_lengths = tokens * length, .head_rows = tokens * head_share};
    const PassWork none = part_work(model, shape, {}, tensor), all = part_work(model, shape, full, tensor);
    const auto line = [&](const Work& least, const Work& most) {
      return fit_line(0, seconds(least, machine), tokens, seconds(most, machine));
    };
    return PieceSeconds{.forward = line(none.forward, all.forward),
                        .backward_input = line(none.backward_input, all.backward_input),
                        .backward_weight = line(none.backward_weight, all.backward_weight)};
  };
  return {.embeddings = piece({.blocks = 0, .embeddings = true, .head = false}),
          .block = piece({.blocks = 1, .embeddings = false, .head = false}),
          .last = piece({.blocks = 1, .embeddings = false, .head = true})};
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
