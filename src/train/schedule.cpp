#include "bert_hpc/train/schedule.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::train {

namespace {

using Kind = Instruction::Kind;

/// The parameters of a schedule.
struct Shape {
  ScheduleKind kind;
  int stages, micro_batches, virtual_stages;

  int last_part() const { return stages * virtual_stages - 1; }
  int part(int stage, int virtual_stage) const { return virtual_stage * stages + stage; }
};

void add(Schedule& schedule, Kind kind, int micro_batch, int virtual_stage = 0) {
  schedule.push_back({.kind = kind, .micro_batch = micro_batch, .virtual_stage = virtual_stage});
}

Schedule one_stage_order(int micro_batches) {
  Schedule order;
  for (int m = 0; m < micro_batches; ++m) {
    add(order, Kind::forward, m);
    add(order, Kind::backward, m);
  }
  return order;
}

Schedule gpipe_order(int micro_batches) {
  Schedule order;
  for (int m = 0; m < micro_batches; ++m) add(order, Kind::forward, m);
  for (int m = 0; m < micro_batches; ++m) add(order, Kind::backward, m);
  return order;
}

Schedule one_f_one_b_order(const Shape& shape, int stage) {
  Schedule order;
  const int warm_up = std::min(shape.micro_batches, shape.stages - stage - 1);
  for (int m = 0; m < warm_up; ++m) add(order, Kind::forward, m);
  for (int m = 0; m < shape.micro_batches; ++m) {
    if (warm_up + m < shape.micro_batches) add(order, Kind::forward, warm_up + m);
    add(order, Kind::backward, m);
  }
  return order;
}

/// 1F1B with weight gradients delayed by `stage` micro-batches, so that every stage holds as many as the first: the
/// later the stage, the fewer weight gradients are on the critical path to the first stage.
Schedule zb_h1_order(const Shape& shape, int stage) {
  Schedule order;
  const int warm_up = std::min(shape.micro_batches, shape.stages - stage - 1);
  int weights = 0;
  for (int m = 0; m < warm_up; ++m) add(order, Kind::forward, m);
  for (int m = 0; m < shape.micro_batches; ++m) {
    const bool steady = warm_up + m < shape.micro_batches;
    if (steady) add(order, Kind::forward, warm_up + m);
    add(order, Kind::backward_input, m);
    // Once no forwards remain, a weight gradient fills each wait for the next gradient.
    if (!steady || m >= stage) add(order, Kind::backward_weight, weights++);
  }
  while (weights < shape.micro_batches) add(order, Kind::backward_weight, weights++);
  return order;
}

/// Micro-batches in groups of `stages`, each group through all virtual stages. An incomplete last group is planned as
/// if complete, and the missing micro-batches are removed: removing all instructions of a micro-batch keeps the order
/// free of deadlocks.
Schedule interleaved_order(const Shape& shape, int stage) {
  const int virtual_stages = shape.virtual_stages;
  const int groups = (shape.micro_batches + shape.stages - 1) / shape.stages;
  const int total = groups * shape.stages * virtual_stages;
  const int warm_up = std::min(total, 2 * (shape.stages - stage - 1) + (virtual_stages - 1) * shape.stages);
  Schedule order;
  const auto add_pass = [&](Kind kind, int number) {
    const int per_group = shape.stages * virtual_stages;
    const int chunk = number % per_group / shape.stages;
    const int micro_batch = number / per_group * shape.stages + number % shape.stages;
    if (micro_batch >= shape.micro_batches) return;
    add(order, kind, micro_batch, kind == Kind::forward ? chunk : virtual_stages - 1 - chunk);
  };
  for (int i = 0; i < warm_up; ++i) add_pass(Kind::forward, i);
  for (int i = 0; i < total; ++i) {
    if (warm_up + i < total) add_pass(Kind::forward, warm_up + i);
    add_pass(Kind::backward, i);
  }
  return order;
}

/// The compute instructions of a stage, in order; the messages follow from them.
Schedule compute_order(const Shape& shape, int stage) {
  if (shape.stages == 1 && shape.kind != ScheduleKind::forwards_first) return one_stage_order(shape.micro_batches);
  switch (shape.kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::forwards_first:
      return gpipe_order(shape.micro_batches);
    case ScheduleKind::one_f_one_b:
      return one_f_one_b_order(shape, stage);
    case ScheduleKind::zb_h1:
      return zb_h1_order(shape, stage);
    case ScheduleKind::interleaved:
      return shape.virtual_stages == 1 ? one_f_one_b_order(shape, stage) : interleaved_order(shape, stage);
  }
  return {};
}

/// The send after a computation, if any.
std::optional<Instruction> send_after(const Shape& shape, int stage, const Instruction& done) {
  const int part = shape.part(stage, done.virtual_stage);
  Instruction send = done;
  if (done.kind == Kind::forward && part < shape.last_part()) {
    send.kind = Kind::send_forward;
  } else if ((done.kind == Kind::backward || done.kind == Kind::backward_input) && part > 0) {
    send.kind = Kind::send_backward;
  } else {
    return std::nullopt;
  }
  return send;
}

/// The receive that a computation needs, if any.
std::optional<Instruction> receive_before(const Shape& shape, int stage, const Instruction& next) {
  const int part = shape.part(stage, next.virtual_stage);
  Instruction receive = next;
  if (next.kind == Kind::forward && part > 0) {
    receive.kind = Kind::receive_forward;
  } else if ((next.kind == Kind::backward || next.kind == Kind::backward_input) && part < shape.last_part()) {
    receive.kind = Kind::receive_backward;
  } else {
    return std::nullopt;
  }
  return receive;
}

/// Fuses a send and an immediately following receive with the same neighbour into one exchange.
Schedule with_exchanges(const Schedule& plain) {
  Schedule fused;
  for (const Instruction& next : plain) {
    Kind kind = next.kind;
    if (!fused.empty() && fused.back().kind == Kind::send_forward && kind == Kind::receive_backward) {
      kind = Kind::send_forward_receive_backward;
    } else if (!fused.empty() && fused.back().kind == Kind::send_backward && kind == Kind::receive_forward) {
      kind = Kind::send_backward_receive_forward;
    } else {
      fused.push_back(next);
      continue;
    }
    fused.back().kind = kind;
    fused.back().other_micro_batch = next.micro_batch;
    fused.back().other_virtual_stage = next.virtual_stage;
  }
  return fused;
}

void check_shape(const Shape& shape) {
  core::require(shape.stages >= 1 && shape.micro_batches >= 0 && shape.virtual_stages >= 1,
                "A schedule needs at least one stage and one virtual stage.");
  if (shape.virtual_stages == 1) return;
  const std::string stated = std::to_string(shape.virtual_stages) + " virtual stages ";
  if (shape.kind != ScheduleKind::interleaved) {
    throw core::Error(core::ExitCode::input, stated + "do not go with the pipeline schedule \"" +
                                                 schedule_name(shape.kind) + "\", only with \"interleaved\".");
  }
  if (shape.stages == 1) {
    throw core::Error(core::ExitCode::input, stated + "need a pipeline of at least 2 stages.");
  }
}

}  // namespace

std::string schedule_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::forwards_first:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved";
    case ScheduleKind::zb_h1:
      return "zb_h1";
  }
  return {};
}

std::optional<ScheduleKind> schedule_kind(std::string_view name) {
  for (const auto kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1}) {
    if (name == schedule_name(kind)) return kind;
  }
  return std::nullopt;
}

Schedule make_schedule(ScheduleKind kind, int stages, int stage, int micro_batches, int virtual_stages) {
  const Shape shape{kind, stages, micro_batches, virtual_stages};
  check_shape(shape);
  core::require(stage >= 0 && stage < stages, "A stage is one of its pipeline's.");
  Schedule schedule;
  for (const Instruction& next : compute_order(shape, stage)) {
    if (const auto receive = receive_before(shape, stage, next)) schedule.push_back(*receive);
    schedule.push_back(next);
    if (const auto send = send_after(shape, stage, next)) schedule.push_back(*send);
  }
  return with_exchanges(schedule);
}

std::vector<Schedule> make_schedules(ScheduleKind kind, int stages, int micro_batches, int virtual_stages) {
  std::vector<Schedule> result;
  for (int stage = 0; stage < stages; ++stage) {
    result.push_back(make_schedule(kind, stages, stage, micro_batches, virtual_stages));
  }
  return result;
}

int max_in_flight(const Schedule& schedule, int virtual_stage) {
  std::vector<bool> holds;
  int in_flight = 0, most = 0;
  const auto take = [&](int micro_batch) {
    const auto m = static_cast<std::size_t>(micro_batch);
    if (holds.size() <= m) holds.resize(m + 1);
    if (holds[m]) return;
    holds[m] = true;
    most = std::max(most, ++in_flight);
  };
  for (const Instruction& i : schedule) {
    const bool own = i.virtual_stage == virtual_stage;
    if (own && (i.kind == Kind::forward || i.kind == Kind::receive_forward)) take(i.micro_batch);
    if (i.kind == Kind::send_backward_receive_forward && i.other_virtual_stage == virtual_stage) {
      take(i.other_micro_batch);
    }
    if (own && (i.kind == Kind::backward || i.kind == Kind::backward_weight)) --in_flight;
  }
  return most;
}

int max_deferred(const Schedule& schedule, int virtual_stage) {
  int deferred = 0, most = 0;
  for (const Instruction& i : schedule) {
    if (i.virtual_stage != virtual_stage) continue;
    if (i.kind == Kind::backward_input) most = std::max(most, ++deferred);
    if (i.kind == Kind::backward_weight) --deferred;
  }
  return most;
}

Transfer transfer_of(const Instruction& i, int stages, int stage) {
  const int before = (stage + stages - 1) % stages, behind = (stage + 1) % stages;
  switch (i.kind) {
    case Kind::send_forward:
      return {.send = Message{behind, true, i.virtual_stage, i.micro_batch}, .receive = {}};
    case Kind::receive_forward:
      return {.send = {}, .receive = Message{before, true, i.virtual_stage, i.micro_batch}};
    case Kind::send_backward:
      return {.send = Message{before, false, i.virtual_stage, i.micro_batch}, .receive = {}};
    case Kind::receive_backward:
      return {.send = {}, .receive = Message{behind, false, i.virtual_stage, i.micro_batch}};
    case Kind::send_forward_receive_backward:
      return {.send = Message{behind, true, i.virtual_stage, i.micro_batch},
              .receive = Message{behind, false, i.other_virtual_stage, i.other_micro_batch}};
    case Kind::send_backward_receive_forward:
      return {.send = Message{before, false, i.virtual_stage, i.micro_batch},
              .receive = Message{before, true, i.other_virtual_stage, i.other_micro_batch}};
    default:
      return {};
  }
}

bool computes(const Instruction& instruction) {
  return instruction.kind <= Kind::backward_weight;
}

const char* instruction_name(Kind kind) {
  static constexpr const char* names[] = {"forward",
                                          "backward",
                                          "backward_input",
                                          "backward_weight",
                                          "send_forward",
                                          "receive_forward",
                                          "send_backward",
                                          "receive_backward",
                                          "send_forward_receive_backward",
                                          "send_backward_receive_forward"};
  return names[static_cast<int>(kind)];
}

}  // namespace bert_hpc::train
