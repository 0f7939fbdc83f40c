// Executes pipeline schedules (train/schedule.hpp): runs the instructions of a step on this rank's stages and exchanges
// activations and gradients with the neighbouring stages. Messages carry data only: every rank of a pipeline knows the
// micro-batches and so all sizes.
//
// One schedule, that of the largest step, serves every step: all ranks skip the instructions of micro-batches that a
// step lacks or that have no sequences, which keeps the order free of deadlocks. Sends are started at once and waited
// for when their memory is needed again, so a send never waits for its receive.
//
// Stages below all trainable parameters have no backward pass, and the stage above them sends no gradient down: the two
// ends of such a message both skip it. Taking messages away from a schedule without deadlocks gives no deadlock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/timers.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/train/loss.hpp"
#include "bert_hpc/train/schedule.hpp"
#include "bert_hpc/train/timeline.hpp"

namespace bert_hpc::train {

struct PipelineSettings {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 1, stage = 0;
  int virtual_stages = 1;
  int micro_batches = 1;  ///< maximum in a step
  /// Gradients are zero when a step begins, so the first micro-batch with sequences of a virtual stage overwrites the
  /// weight gradients instead of adding to them (train/weight_gradients.hpp).
  bool replaces_first = false;
  /// Whether a training step of several micro-batches begins with a round of forward passes that keep nothing and show
  /// the loss all outputs (Loss::look()).
  bool looks_ahead = false;
};

/// Memory that each virtual stage of this rank needs for training. Pure.
std::vector<model::StageMemory> training_memory(const PipelineSettings& settings);
/// The same for evaluation.
std::vector<model::StageMemory> evaluation_memory(const PipelineSettings& settings);

/// Callbacks during a step.
class PipelineEvents {
 public:
  virtual ~PipelineEvents() = default;
  /// When the slot of the part with the head has its row losses: after the forward pass, or with a loss over a whole
  /// step after the last one, or after the backward pass if that computes them.
  virtual void result(int micro_batch, model::Stage& stage, int slot) = 0;
  /// During the backward pass of a virtual stage: see model::Stage::backward.
  virtual void finished(int /*virtual_stage*/, std::int64_t /*begin*/) {}
  /// After the weight gradients of each micro-batch of a virtual stage, in order, including those without sequences.
  virtual void end_micro_batch(int /*virtual_stage*/) {}
};

class Pipeline {
 public:
  /// `stages` (of this rank, by virtual stage), `workspace` (after planning with the memory above), `group` (all stages
  /// of this pipeline, by stage) and `timers` must outlive the pipeline and must not move.
  Pipeline(const PipelineSettings& settings, std::span<model::Stage> stages, core::Workspace& workspace,
           comm::Communicator& group, core::Timers& timers);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Loss of the training steps from now on; without a call the head's own, without options.
  void set_loss(std::unique_ptr<Loss> loss) { loss_ = std::move(loss); }

  /// Collective over the group. Runs forward and backward of every micro-batch; each context describes one micro-batch.
  void train(layers::Engine engine, std::span<const layers::StepContext> contexts, const LossStep& step,
             PipelineEvents& events);

  /// Collective over the group. Runs only forward, for any number of micro-batches; not timed. `losses`: computes the
  /// head's row losses, without options; the batches have targets.
  void evaluate(layers::Engine engine, std::span<const layers::StepContext> contexts, bool losses,
                PipelineEvents& events);

  /// From now on appends every executed instruction of a training step to `into`, with times in seconds since the
  /// step's begin; null stops recording.
  void record(std::vector<TimedInstruction>* into) { record_ = into; }

 private:
  /// A virtual stage of this rank.
  struct Part {
    model::Stage* stage = nullptr;
    int slots = 1, deferred = 0;
    std::vector<comm::RequestHandle> outputs;  // by slot: the last send of its output
    std::vector<comm::RequestHandle> inputs;   // by slot: the receive into it
    comm::RequestHandle gradients[2];          // the last sends of d_input
    bool has_gradients = false;                // of weights, in the current step
  };

  enum class Round { look, train, evaluate };

  void begin(layers::Engine engine, std::span<const layers::StepContext> contexts, PipelineEvents& events, Round round);
  /// Runs only forward.
  void run_forward();
  /// Whether this step has a round of forward passes that keep nothing.
  bool looks_ahead(std::span<const layers::StepContext> contexts) const;
  /// True if the micro-batch is not in this step or has no sequences.
  bool absent(int micro_batch) const;
  /// Both ends of a message know the same: a gradient is sent where the receiver trains something or sends it on.
  bool is_sent(const Message& message) const;
  bool is_received(const Message& message) const;
  void execute(const Instruction& instruction);
  void compute(const Instruction& instruction);
  void forward(Part& part, const Instruction& instruction);
  /// After the forward pass of the part with the head.
  void finish_forward(const ForwardResult& result);
  void backward(Part& part, const Instruction& instruction);
  void backward_weight(Part& part, const Instruction& instruction);
  void send(const Message& message);
  void receive(const Message& message);
  void wait(comm::RequestHandle& request);
  /// Waits for the receive into the slot; `kind` is that of the receive.
  void wait_for_input(Part& part, const Instruction& instruction, Instruction::Kind kind);
  void finish();
  void progress();
  Part& part(int virtual_stage) { return parts_[static_cast<std::size_t>(virtual_stage)]; }
  const Part& part(int virtual_stage) const { return parts_[static_cast<std::size_t>(virtual_stage)]; }
  const layers::StepContext& context(int micro_batch) const { return contexts_[static_cast<std::size_t>(micro_batch)]; }
  static int slot(const Part& part, int micro_batch) { return micro_batch % part.slots; }
  static int deferred(const Part& part, int micro_batch) { return micro_batch % part.deferred; }
  double now() const;
  core::Timers& timers() { return round_ != Round::evaluate ? timers_ : discarded_; }
  void note(const Instruction& instruction, double begin);
  /// The engine for the next gradients of the part's weights.
  layers::Engine engine_of(Part& part) const;

  PipelineSettings settings_;
  core::Workspace& workspace_;
  comm::Communicator& group_;
  core::Timers& timers_;
  Schedule schedule_;
  std::vector<model::StageMemory> training_, evaluation_;
  std::vector<Part> parts_;
  std::unique_ptr<Loss> loss_;
  std::vector<TimedInstruction>* record_ = nullptr;

  // State of the current step.
  std::optional<layers::Engine> engine_;
  std::span<const layers::StepContext> contexts_;
  PipelineEvents* events_ = nullptr;
  Round round_ = Round::train;
  bool evaluates_losses_ = true;
  std::vector<layers::StepContext> looks_;  // contexts of the first round
  core::Timers discarded_;                  // discards the times of evaluations
  core::Timers::Clock::time_point begin_;
};

}  // namespace bert_hpc::train
