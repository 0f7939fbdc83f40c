#include "bert_hpc/train/simulate.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/train/pipeline_plan.hpp"

namespace bert_hpc::train {

namespace {

using Kind = Instruction::Kind;

constexpr double element = sizeof(float);

/// Ranks first, first + stride, … that form a group of collectives.
struct RankGroup {
  int first = 0, count = 1, stride = 1;
};

class Simulation {
 public:
  explicit Simulation(const SimulationInput& input)
      : in_(input),
        stages_(input.grid.pipeline),
        parts_(model::ranges_of(input.balance)),
        schedules_(
            make_schedules(input.kind, stages_, static_cast<int>(input.micro_batches.size()), input.virtual_stages)) {
    core::require(input.balance.size() == static_cast<std::size_t>(stages_ * input.virtual_stages),
                  "A balance has one number for each part of the model.");
    core::require(parts_.back().last == input.model.sublayer_count(), "A balance covers the sublayers of the model.");
    core::require(input.machine.node_ranks > 0 && input.machine.flops > 0, "A simulation needs a machine's rates.");
  }

  SimulatedStep run() {
    SimulatedStep step;
    step.pipeline = play(schedules_, durations());
    step.bubble = bubble(step.pipeline);
    // Rates are those while all ranks compute. If ranks share cores, a waiting rank leaves its share to the others.
    scale_ = in_.measured ? 1.0 : shared_core_scale(step.pipeline, in_.machine.core_share);
    if (scale_ < 1) step.pipeline = play(schedules_, durations());
    for (int stage = 0; stage < stages_; ++stage) step.loads.push_back(load(stage));
    add_tails(step);
    if (step.seconds > 0) step.tokens_per_second = in_.step_tokens / step.seconds;
    return step;
  }

 private:
  const model::ModelRange& part(int stage, int virtual_stage) const {
    return parts_[static_cast<std::size_t>(virtual_stage * stages_ + stage)];
  }
  const layers::BatchShape& micro_batch(int number) const {
    return in_.micro_batches[static_cast<std::size_t>(number)];
  }

  // --- Which groups share a node.

  bool leaves_node(const RankGroup& group) const {
    const std::int64_t last = group.first + static_cast<std::int64_t>(group.count - 1) * group.stride;
    return group.first / in_.machine.node_ranks != last / in_.machine.node_ranks;
  }
  const core::LinkRates& link(bool leaves) const { return leaves ? in_.machine.between_nodes : in_.machine.in_node; }

  /// True if some group of this stage leaves the node; the others wait for that slowest one.
  bool tensor_leaves(int stage) const {
    return any(stage, [this](int rank, comm::GridCoordinates at) {
      return leaves_node({rank - at.tensor, in_.grid.tensor, 1});
    });
  }
  bool data_leaves(int stage) const {
    return any(stage, [this](int rank, comm::GridCoordinates at) {
      return leaves_node({rank - at.data * in_.grid.tensor, in_.grid.data, in_.grid.tensor});
    });
  }
  bool pipeline_leaves(int from, int to) const {
    return any(from, [this, to](int rank, comm::GridCoordinates at) {
      at.pipeline = to;
      const int other = comm::rank_at(in_.grid, at);
      return rank / in_.machine.node_ranks != other / in_.machine.node_ranks;
    });
  }
  template <class Test>
  bool any(int stage, const Test& test) const {
    for (int data = 0; data < in_.grid.data; ++data) {
      for (int tensor = 0; tensor < in_.grid.tensor; ++tensor) {
        const comm::GridCoordinates at{data, stage, tensor};
        if (test(comm::rank_at(in_.grid, at), at)) return true;
      }
    }
    return false;
  }

  // --- Durations.

  double columns(std::int64_t sublayer) const { return static_cast<double>(in_.model.width(sublayer)); }

  /// One phase of a ring all-reduce: a reduce-scatter or an all-gather.
  static double ring_bytes(double bytes, int ranks) { return bytes * (ranks - 1) / ranks; }
  double ring_seconds(double bytes, int ranks, const core::LinkRates& rates, double bandwidth) const {
    if (ranks == 1) return 0;
    return ring_bytes(bytes, ranks) / (bandwidth > 0 ? bandwidth : rates.bandwidth) + (ranks - 1) * rates.latency;
  }

  /// Bytes of a stage's gradients that replicas sum: of the word embeddings only the rows of the step's tokens, unless
  /// the decoder's gradient is added to them.
  double summed_bytes(std::size_t stage, const StageLoad& load) const {
    const bool looks_up = stage == 0 && !in_.model.head.ties_word_embeddings;
    if (!looks_up || in_.model.input_training().weights == 0) return element * load.trained;
    double tokens = 0;
    for (const layers::BatchShape& batch : in_.micro_batches) tokens += batch.tokens;
    const double rows = std::max(0.0, static_cast<double>(in_.model.input->looked_up()) - tokens * in_.grid.data);
    return element * std::max(0.0, load.trained - rows * columns(0) / in_.grid.tensor);
  }

  double gather_seconds(const StageLoad& load) const {
    const core::LinkRates& rates = link(load.data_leaves_node);
    return ring_seconds(element * load.trained, in_.grid.data, rates, rates.gather_bandwidth);
  }

  /// A gradient is sent where a layer below is trained.
  bool is_sent(int from, const Message& message) const {
    return message.forward || in_.model.trains_below(part(from, message.virtual_stage).first);
  }

  double message_bytes(int from, const Message& message) const {
    if (!is_sent(from, message)) return 0;
    const std::int64_t sublayer = sublayer_after(in_.balance, stages_, from, message);
    const double rows = rows_into(in_.model, sublayer, micro_batch(message.micro_batch));
    return in_.model.element_bytes() * rows * columns(sublayer) / in_.grid.tensor;
  }

  /// A sublayer gathers its input's rows and scatters its output's sums, in both forward and backward.
  static constexpr int tensor_rings = 2;
  double tensor_bytes(const model::ModelRange& shape, int number) const {
    return in_.model.element_bytes() * micro_batch(number).tokens * columns(shape.first) * tensor_rings *
           static_cast<double>(shape.sublayers());
  }

  double compute_seconds(int stage, const Instruction& i) const {
    if (in_.measured) return in_.measured(stage, i);
    const model::ModelRange shape = part(stage, i.virtual_stage);
    const layers::PassWork work = range_costs(in_.model, shape, micro_batch(i.micro_batch), in_.grid.tensor).work;
    double result = 0;
    if (i.kind == Kind::forward) result = model::seconds(work.forward, in_.machine);
    if (i.kind == Kind::backward || i.kind == Kind::backward_input)
      result = model::seconds(work.backward_input, in_.machine);
    if (i.kind == Kind::backward || i.kind == Kind::backward_weight) {
      result += model::seconds(work.backward_weight, in_.machine);
    }
    const bool has_backward = in_.model.trains_below(shape.last) || (shape.head && in_.model.head_training().backward);
    if (in_.grid.tensor > 1 && (i.kind == Kind::forward || (i.kind != Kind::backward_weight && has_backward))) {
      const bool leaves = tensor_leaves_[static_cast<std::size_t>(stage)];
      const double rounds = (in_.grid.tensor - 1) * tensor_rings * static_cast<double>(shape.sublayers());
      result += ring_bytes(tensor_bytes(shape, i.micro_batch), in_.grid.tensor) / link(leaves).bandwidth +
                rounds * link(leaves).latency;
    }
    return result * scale_;
  }

  PipelineDurations durations() {
    tensor_leaves_.clear();
    next_leaves_.clear();
    for (int stage = 0; stage < stages_; ++stage) {
      tensor_leaves_.push_back(tensor_leaves(stage));
      next_leaves_.push_back(pipeline_leaves(stage, (stage + 1) % stages_));
    }
    PipelineDurations result;
    result.compute = [this](int stage, const Instruction& i) { return compute_seconds(stage, i); };
    result.transfer = [this](int from, int to, const Message& message) {
      return message_bytes(from, message) / link(between(from, to)).bandwidth;
    };
    result.latency = [this](int from, int to) { return link(between(from, to)).latency; };
    return result;
  }
  bool between(int from, int to) const {
    return next_leaves_[static_cast<std::size_t>((from + 1) % stages_ == to ? from : to)];
  }

  // --- Memory and traffic of a rank.

  StageLoad load(int stage) const {
    StageLoad load;
    const Schedule& schedule = schedules_[static_cast<std::size_t>(stage)];
    for (int v = 0; v < in_.virtual_stages; ++v) {
      const model::ModelRange shape = part(stage, v);
      load.parameters += range_parameters(in_.model, shape, in_.grid.tensor);
      load.trained += range_trainable_parameters(in_.model, shape, in_.grid.tensor);
      double largest = 0, deferred = 0;
      for (const layers::BatchShape& batch : in_.micro_batches) {
        const layers::LayerCosts costs = range_costs(in_.model, shape, batch, in_.grid.tensor);
        largest = std::max(largest, costs.saved_bytes);
        deferred = std::max(deferred, costs.deferred_bytes);
      }
      load.activation_bytes += max_in_flight(schedule, v) * largest + max_deferred(schedule, v) * deferred;
      for (std::size_t m = 0; m < in_.micro_batches.size(); ++m) {
        load.sent_tensor += 2 * ring_bytes(tensor_bytes(shape, static_cast<int>(m)), in_.grid.tensor);
      }
    }
    // fp32 values; gradients and states of what is trained. ZeRO shards the states, then the gradients too.
    const double replicas = in_.grid.data, states = in_.state_bytes;
    load.state_bytes = element * load.parameters + load.trained * (in_.zero == 0   ? element + states
                                                                   : in_.zero == 1 ? element + states / replicas
                                                                                   : (element + states) / replicas);
    for (const Instruction& i : schedule) {
      const auto send = transfer_of(i, stages_, stage).send;
      if (!send || !is_sent(stage, *send)) continue;
      load.sent_pipeline += message_bytes(stage, *send);
      load.pipeline_leaves_node = load.pipeline_leaves_node || between(stage, send->peer);
    }
    load.sent_data =
        ring_bytes(summed_bytes(static_cast<std::size_t>(stage), load) + element * load.trained, in_.grid.data);
    load.data_leaves_node = in_.grid.data > 1 && data_leaves(stage);
    load.tensor_leaves_node = in_.grid.tensor > 1 && tensor_leaves_[static_cast<std::size_t>(stage)];
    return load;
  }

  /// Sums overlapped with the stage's last weight gradients; then, for all stages together, the norm; the update; the
  /// sharing of new parameters.
  void add_tails(SimulatedStep& step) const {
    double known = 0;
    for (std::size_t stage = 0; stage < step.pipeline.stages.size(); ++stage) {
      const StageLoad& load = step.loads[stage];
      const auto& events = step.pipeline.stages[stage];
      double begin = 0, end = 0;
      for (const TimedInstruction& timed : events) {
        end = std::max(end, timed.end);
        const Kind kind = timed.instruction.kind;
        if (kind == Kind::backward || kind == Kind::backward_weight) begin = timed.begin;
      }
      const core::LinkRates& rates = link(load.data_leaves_node);
      const double sum = ring_seconds(summed_bytes(stage, load), in_.grid.data, rates, rates.reduce_bandwidth);
      // Without ZeRO every rank updates all parameters: the sums are gathered after the last of them.
      const double gathered = in_.zero == 0 ? gather_seconds(load) : 0.0;
      step.tails.push_back({.sums_end = in_.measured_tail ? end : std::max(end, begin + sum) + gathered});
      known = std::max(known, step.tails.back().sums_end);
    }
    if (in_.measured_tail) {  // all stages end their sums together, once the slowest arrives
      known += in_.measured_tail->sums;
      for (StageTail& tail : step.tails) tail.sums_end = known;
    } else {
      const int ranks = in_.grid.ranks();
      const bool leaves = ranks > in_.machine.node_ranks;
      known += 2 * std::ceil(std::log2(static_cast<double>(ranks))) * link(leaves).latency + in_.machine.step_overhead;
    }
    for (std::size_t stage = 0; stage < step.tails.size(); ++stage) {
      const StageLoad& load = step.loads[stage];
      StageTail& tail = step.tails[stage];
      // An update reads value, gradient and states of each parameter, and writes value and states.
      const double updated = load.trained / (in_.zero == 0 ? 1 : in_.grid.data);
      const double update = in_.measured_tail
                                ? in_.measured_tail->update
                                : (3 * element + 2 * in_.state_bytes) * updated / in_.machine.memory_bandwidth;
      tail.update_begin = known;
      tail.update_end = known + update;
      const double share = in_.measured_tail ? in_.measured_tail->share : in_.zero == 0 ? 0.0 : gather_seconds(load);
      tail.share_end = tail.update_end + share;
      step.seconds = std::max(step.seconds, tail.share_end);
    }
    double slowest_update = 0;
    for (const StageTail& tail : step.tails) {
      slowest_update = std::max(slowest_update, tail.update_end - tail.update_begin);
    }
    if (step.seconds > 0) step.exposed = (step.seconds - step.pipeline.seconds - slowest_update) / step.seconds;
  }

  const SimulationInput& in_;
  int stages_;
  std::vector<model::ModelRange> parts_;
  std::vector<Schedule> schedules_;
  double scale_ = 1;                               // factor on the passes' times
  std::vector<bool> tensor_leaves_, next_leaves_;  // (stages): for the tensor group, and for the link to the next stage
};

/// Seconds of the stage whose forward pass takes longest.
double slowest_forward_seconds(const SimulationInput& input, const layers::BatchShape& batch) {
  std::vector<double> stages(static_cast<std::size_t>(input.grid.pipeline), 0.0);
  const std::vector<model::ModelRange> parts = model::ranges_of(input.balance);
  for (std::size_t number = 0; number < parts.size(); ++number) {
    stages[number % stages.size()] +=
        model::seconds(range_costs(input.model, parts[number], batch, input.grid.tensor).work.forward, input.machine);
  }
  return *std::max_element(stages.begin(), stages.end());
}

}  // namespace

/// The pipeline fills while the first micro-batch, the longest, passes through the stages.
double forward_seconds(const SimulationInput& input) {
  double seconds = 0, longest = 0;
  for (const layers::BatchShape& batch : input.micro_batches) {
    const double slowest = slowest_forward_seconds(input, batch);
    seconds += slowest;
    longest = std::max(longest, slowest);
  }
  return seconds + (input.grid.pipeline - 1) * longest;
}

double evaluation_seconds(const SimulationInput& input, const layers::BatchShape& all, double micro_tokens) {
  if (all.tokens <= 0) return 0;
  const double tokens = all.tokens / input.grid.data, count = std::ceil(tokens / micro_tokens);
  const double part = 1 / (input.grid.data * count);
  const layers::BatchShape batch{.tokens = all.tokens * part,
                                 .squared_lengths = all.squared_lengths * part,
                                 .logit_positions = all.logit_positions * part};
  return (count + input.grid.pipeline - 1) * slowest_forward_seconds(input, batch);
}

SimulatedStep simulate_step(const SimulationInput& input) {
  return Simulation(input).run();
}

}  // namespace bert_hpc::train
