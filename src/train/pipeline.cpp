#include "bert_hpc/train/pipeline.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::train {
namespace {

using Kind = Instruction::Kind;

Schedule schedule_of(const PipelineSettings& s) {
  return make_schedule(s.kind, s.stages, s.stage, s.micro_batches, s.virtual_stages);
}

/// A stage's result or gradient as a message: transferred bitwise as floats, whatever its type. Rows in 16 bits have an
/// even number of elements.
std::span<float> elements_of(const core::Matrix& matrix) {
  const std::int64_t bytes = matrix.size() * core::bytes_of(matrix.type);
  return {static_cast<float*>(matrix.data), static_cast<std::size_t>(bytes) / sizeof(float)};
}

}  // namespace

std::vector<model::StageMemory> training_memory(const PipelineSettings& settings) {
  const Schedule schedule = schedule_of(settings);
  std::vector<model::StageMemory> memory;
  for (int v = 0; v < settings.virtual_stages; ++v) {
    memory.push_back(
        {.training = true, .slots = std::max(1, max_in_flight(schedule, v)), .deferred = max_deferred(schedule, v)});
  }
  return memory;
}

std::vector<model::StageMemory> evaluation_memory(const PipelineSettings& settings) {
  // With two slots, a result can be sent while the next one is computed.
  return std::vector<model::StageMemory>(static_cast<std::size_t>(settings.virtual_stages),
                                         {.training = false, .slots = settings.stages > 1 ? 2 : 1, .deferred = 0});
}

Pipeline::Pipeline(const PipelineSettings& settings, std::span<model::Stage> stages, core::Workspace& workspace,
                   comm::Communicator& group, core::Timers& timers)
    : settings_(settings),
      workspace_(workspace),
      group_(group),
      timers_(timers),
      schedule_(schedule_of(settings)),
      training_(training_memory(settings)),
      evaluation_(evaluation_memory(settings)),
      parts_(stages.size()),
      loss_(std::make_unique<MicroBatchLoss>(LossOptions{})) {
  core::require(stages.size() == static_cast<std::size_t>(settings.virtual_stages) && group.size() == settings.stages &&
                    group.rank() == settings.stage,
                "pipeline: stages, group and settings do not fit each other");
  for (std::size_t v = 0; v < parts_.size(); ++v) {
    parts_[v].stage = &stages[v];
    const auto most = static_cast<std::size_t>(std::max(training_[v].slots, evaluation_[v].slots));
    parts_[v].outputs.resize(most);
    parts_[v].inputs.resize(most);
    if (settings.stages > 1) stages[v].set_progress([this] { progress(); });
  }
  if (settings.looks_ahead) looks_.reserve(static_cast<std::size_t>(settings.micro_batches));
}

void Pipeline::begin(layers::Engine engine, std::span<const layers::StepContext> contexts, PipelineEvents& events,
                     Round round) {
  const std::span<const model::StageMemory> memory = round == Round::train ? training_ : evaluation_;
  engine_.emplace(engine);
  contexts_ = contexts;
  events_ = &events;
  round_ = round;
  begin_ = core::Timers::Clock::now();
  for (std::size_t v = 0; v < parts_.size(); ++v) {
    parts_[v].slots = memory[v].slots;
    parts_[v].deferred = memory[v].deferred;
    parts_[v].has_gradients = false;
  }
}

bool Pipeline::absent(int micro_batch) const {
  return micro_batch < 0 || micro_batch >= static_cast<int>(contexts_.size()) ||
         context(micro_batch).batch.sequences == 0;
}

void Pipeline::train(layers::Engine engine, std::span<const layers::StepContext> contexts, const LossStep& step,
                     PipelineEvents& events) {
  core::require(static_cast<int>(contexts.size()) <= settings_.micro_batches,
                "pipeline: more micro-batches than planned");
  if (looks_ahead(contexts)) {
    looks_.clear();
    for (const layers::StepContext& each : contexts) {
      looks_.push_back(each);
      looks_.back().forward_only = true;
    }
    begin(engine, looks_, events, Round::look);
    loss_->begin(step);
    run_forward();
    begin(engine, contexts, events, Round::train);
  } else {
    begin(engine, contexts, events, Round::train);
    loss_->begin(step);
  }
  for (const Instruction& instruction : schedule_) execute(instruction);
  finish();
}

bool Pipeline::looks_ahead(std::span<const layers::StepContext> contexts) const {
  const auto has_sequences = [](const layers::StepContext& each) { return each.batch.sequences > 0; };
  return settings_.looks_ahead && std::count_if(contexts.begin(), contexts.end(), has_sequences) > 1;
}

void Pipeline::evaluate(layers::Engine engine, std::span<const layers::StepContext> contexts, bool losses,
                        PipelineEvents& events) {
  begin(engine, contexts, events, Round::evaluate);
  evaluates_losses_ = losses;
  run_forward();
}

/// Processes groups of as many micro-batches as there are stages, each group through all virtual stages, so that a
/// stage that waits for an earlier part has as much work as the others.
void Pipeline::run_forward() {
  const int count = static_cast<int>(contexts_.size()), last = settings_.virtual_stages - 1;
  for (int first = 0; first < count; first += settings_.stages) {
    for (int v = 0; v <= last; ++v) {
      for (int m = first; m < std::min(count, first + settings_.stages); ++m) {
        const bool first_part = v == 0 && settings_.stage == 0;
        const bool last_part = v == last && settings_.stage == settings_.stages - 1;
        if (!first_part) execute({.kind = Kind::receive_forward, .micro_batch = m, .virtual_stage = v});
        execute({.kind = Kind::forward, .micro_batch = m, .virtual_stage = v});
        if (!last_part) execute({.kind = Kind::send_forward, .micro_batch = m, .virtual_stage = v});
      }
    }
  }
  finish();
}

void Pipeline::execute(const Instruction& instruction) {
  if (computes(instruction)) return compute(instruction);
  const Transfer transfer = transfer_of(instruction, settings_.stages, settings_.stage);
  if (transfer.send && is_sent(*transfer.send)) send(*transfer.send);
  if (transfer.receive && is_received(*transfer.receive)) receive(*transfer.receive);
}

bool Pipeline::is_sent(const Message& message) const {
  const bool computed = message.forward || part(message.virtual_stage).stage->sends_gradient();
  return computed && !absent(message.micro_batch);
}

bool Pipeline::is_received(const Message& message) const {
  const bool needed = message.forward || part(message.virtual_stage).stage->has_backward();
  return needed && !absent(message.micro_batch);
}

void Pipeline::compute(const Instruction& instruction) {
  Part& own = part(instruction.virtual_stage);
  const bool last_half = instruction.kind == Kind::backward || instruction.kind == Kind::backward_weight;
  const bool forward_only = !own.stage->has_backward();
  if (!absent(instruction.micro_batch) && (instruction.kind == Kind::forward || !forward_only)) {
    if (instruction.kind == Kind::forward) {
      forward(own, instruction);
    } else if (instruction.kind == Kind::backward_weight) {
      backward_weight(own, instruction);
    } else {
      backward(own, instruction);
    }
  }
  // Also for a micro-batch without sequences: reproducible sums count chunks without gradients too.
  if (last_half && instruction.micro_batch < static_cast<int>(contexts_.size())) {
    events_->end_micro_batch(instruction.virtual_stage);
  }
}

void Pipeline::forward(Part& own, const Instruction& instruction) {
  const int m = instruction.micro_batch, s = slot(own, m);
  if (own.stage->range().embeddings) {
    wait(own.outputs[static_cast<std::size_t>(s)]);
    own.stage->open(workspace_, context(m), s);
  }
  wait_for_input(own, instruction, Kind::receive_forward);
  const double begin = now();
  const auto timed = timers().measure("forward");
  own.stage->forward(*engine_, context(m), s);
  if (own.stage->range().head) finish_forward({m, own.stage, s});
  note(instruction, begin);
}

void Pipeline::finish_forward(const ForwardResult& result) {
  const layers::StepContext& pass = context(result.micro_batch);
  if (round_ == Round::look) return loss_->look(result, pass);
  if (round_ == Round::train) {
    for (const ForwardResult& done : loss_->add(result, pass)) {
      if (!done.stage->computes_loss_in_backward(done.slot)) events_->result(done.micro_batch, *done.stage, done.slot);
    }
    return;
  }
  if (evaluates_losses_) result.stage->loss(pass, 1.0f, result.slot);
  events_->result(result.micro_batch, *result.stage, result.slot);
}

void Pipeline::backward(Part& own, const Instruction& instruction) {
  const int m = instruction.micro_batch, v = instruction.virtual_stage, s = slot(own, m);
  wait_for_input(own, instruction, Kind::receive_backward);
  wait(own.gradients[own.stage->next_send_buffer()]);
  const double begin = now();
  if (instruction.kind == Kind::backward_input) {
    const auto timed = timers().measure("backward input");
    own.stage->backward_input(*engine_, context(m), workspace_, s, deferred(own, m));
  } else {
    const auto timed = timers().measure("backward");
    layers::Engine engine = engine_of(own);
    own.stage->backward(
        engine, context(m), workspace_, [this, v](std::int64_t from) { events_->finished(v, from); }, s);
    if (own.stage->computes_loss_in_backward(s)) events_->result(m, *own.stage, s);
  }
  note(instruction, begin);
}

void Pipeline::backward_weight(Part& own, const Instruction& instruction) {
  const int m = instruction.micro_batch, v = instruction.virtual_stage;
  const double begin = now();
  const auto timed = timers().measure("backward weight");
  layers::Engine engine = engine_of(own);
  own.stage->backward_weight(
      engine, context(m), [this, v](std::int64_t from) { events_->finished(v, from); }, slot(own, m), deferred(own, m));
  note(instruction, begin);
}

layers::Engine Pipeline::engine_of(Part& own) const {
  layers::Engine engine = *engine_;
  if (settings_.replaces_first && !own.has_gradients) engine.weight_gradients = ops::Write::replace;
  own.has_gradients = true;
  return engine;
}

void Pipeline::send(const Message& message) {
  Part& own = part(message.virtual_stage);
  const int s = slot(own, message.micro_batch);
  const auto at = static_cast<std::size_t>(s);
  const std::span<float> elements = elements_of(message.forward ? own.stage->output(s) : own.stage->d_input(s));
  if (elements.empty()) return;  // no row that the head reads; the receiver knows that too
  // backward has switched to the next send buffer; its result is in the other one.
  comm::RequestHandle& sent = message.forward ? own.outputs[at] : own.gradients[1 - own.stage->next_send_buffer()];
  sent = group_.start_send(elements, message.peer);
}

void Pipeline::receive(const Message& message) {
  Part& own = part(message.virtual_stage);
  const int s = slot(own, message.micro_batch);
  const auto at = static_cast<std::size_t>(s);
  wait(own.outputs[at]);  // by the slot's last micro-batch, or by this one, whose gradient overwrites its output
  if (message.forward) own.stage->open(workspace_, context(message.micro_batch), s);
  const std::span<float> into = elements_of(message.forward ? own.stage->input(s) : own.stage->d_output(s));
  if (!into.empty()) own.inputs[at] = group_.start_receive(into, message.peer);
}

void Pipeline::wait(comm::RequestHandle& request) {
  if (!request) return;
  const bool finished = request->needs_progress() && request->test();
  if (!finished) {
    const auto timed = timers().measure("pipeline wait");
    request->wait();
  }
  request.reset();
}

void Pipeline::wait_for_input(Part& own, const Instruction& instruction, Kind kind) {
  comm::RequestHandle& request = own.inputs[static_cast<std::size_t>(slot(own, instruction.micro_batch))];
  if (!request) return;
  const double begin = now();
  wait(request);
  Instruction received = instruction;
  received.kind = kind;
  note(received, begin);
}

void Pipeline::finish() {
  for (Part& each : parts_) {
    for (comm::RequestHandle& request : each.outputs) wait(request);
    for (comm::RequestHandle& request : each.gradients) wait(request);
  }
}

void Pipeline::progress() {
  for (Part& each : parts_) {
    for (auto* requests : {&each.outputs, &each.inputs}) {
      for (const comm::RequestHandle& request : *requests) {
        if (request) request->progress();
      }
    }
    for (const comm::RequestHandle& request : each.gradients) {
      if (request) request->progress();
    }
  }
}

double Pipeline::now() const {
  return std::chrono::duration<double>(core::Timers::Clock::now() - begin_).count();
}

void Pipeline::note(const Instruction& instruction, double begin) {
  if (record_ != nullptr && round_ != Round::look) record_->push_back({instruction, begin, now()});
}

}  // namespace bert_hpc::train
