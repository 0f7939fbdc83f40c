// Stage: a range of the sublayers of a model, with the input before the first one and the head behind the last one. A
// single stage is the whole model. Several micro-batches may be in flight. Each has a slot, a fixed region of the
// workspace with everything that its backward pass needs.
//
// A micro-batch goes through a slot in this order: open (its tensors are laid out), forward (from input(), which the
// caller has filled, or from the embeddings), loss (head only), backward (from d_output(), filled by the caller, to
// d_input()). backward is backward_input and backward_weight at once, with less memory: gradients inside the stage
// alternate between two tensors. Zero-bubble schedules call the two parts separately. Regions outside the slots, fewer
// than these, then keep what the second part needs from the first. d_input() lies outside the slot, so that a message
// can read it while the next micro-batch uses the slot; it alternates between two tensors.
//
// Backward ends at the lowest part with a trainable parameter, unless the gradient at the stage's input is needed.
// Below it nothing is kept of a forward pass, and a stage that lies below all trainable parameters has no backward
// pass.
//
// A stage may be shared out over a tensor group (layers/tensor_group.hpp): "rows" below are then this rank's piece of
// the token rows, and every pass is collective over the group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/layers/input.hpp"
#include "bert_hpc/layers/stream_observer.hpp"
#include "bert_hpc/layers/sublayer.hpp"
#include "bert_hpc/model/model_parameters.hpp"

namespace bert_hpc::model {

using core::ConstMatrix;
using core::DataType;
using core::Matrix;
using core::Tensor;

/// How many micro-batches a stage holds at once.
struct StageMemory {
  bool training = true;  ///< else forward only
  int slots = 1;
  int deferred = 0;  ///< micro-batches between backward_input and backward_weight; 0: the two are never separate
};

class Stage {
 public:
  using Finished = std::function<void(std::int64_t begin)>;

  /// `parameters` must outlive the stage and hold what model_parameters() lists for the range and the group's tensor
  /// rank. `fuses_row_sums`: as in layers::SublayerSettings; tests count a GPU's launches on a CPU.
  Stage(const ModelPlan& plan, const ModelRange& range, const core::ParameterStore& parameters,
        const layers::TensorGroup& group = {}, bool fuses_row_sums = ops::fuses_row_sums());
  /// By make_plan(). `storage`: of activations and the gradients with respect to them, so of all that goes in or out
  /// but logits.
  Stage(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs, const ModelRange& range,
        const core::ParameterStore& parameters, const layers::TensorGroup& group = {},
        DataType storage = DataType::fp32, bool fuses_row_sums = ops::fuses_row_sums());

  const ModelRange& range() const { return range_; }
  /// The weights of the products of all blocks here.
  std::vector<layers::LinearWeight> block_weights() const;
  /// Weights of every matrix product here: of the input, all blocks and the head.
  std::vector<layers::LinearWeight> linear_weights() const;
  bool has_relative_positions() const { return plan_.has_relative_positions(); }
  /// Whether this stage has a backward pass.
  bool has_backward() const { return trains_embeddings() || first_backward_ <= sublayers_.size(); }
  /// Whether backward produces d_input().
  bool sends_gradient() const { return !range_.embeddings && range_.sends_gradient; }

  /// Arena offset of this stage's first trainable parameter; the end of all trainable parameters if it has none.
  std::int64_t arena_begin() const { return arena_begin_; }
  /// What the backward passes call `finished` with, ascending.
  std::vector<std::int64_t> finished_begins() const;

  /// Makes the workspace (while it is planning) large enough for any micro-batches within the bounds. Training and
  /// evaluation, and so passes of a training that keep nothing, are planned separately, by two calls; both use the
  /// workspace from its begin.
  void plan(core::Workspace& workspace, const layers::BatchBounds& bounds, const StageMemory& memory);
  /// The same for several stages of one rank, memory[i] for stages[i]: separate slots, shared scratch.
  static void plan(std::span<Stage> stages, core::Workspace& workspace, const layers::BatchBounds& bounds,
                   std::span<const StageMemory> memory);

  /// Bytes of the plan for training that keep what attention's dropout keeps.
  std::int64_t dropout_bytes() const { return training_.dropout_bytes; }

  /// Gives a slot to a micro-batch. What the slot held is lost.
  void open(core::Workspace& workspace, const layers::StepContext& context, int slot = 0);

  void forward(layers::Engine& engine, const layers::StepContext& context, int slot = 0);

  /// Called between the sublayers of every pass: where messages on their way get a chance to move.
  void set_progress(std::function<void()> progress) { progress_ = std::move(progress); }

  /// Row losses of the forward pass; in training, the loss gradient too: of Σ row losses · scale. With a head, whose
  /// loss it is. If computes_loss_in_backward(), backward() writes both.
  void loss(const layers::StepContext& context, float scale, int slot = 0, const layers::LossSettings& settings = {}) {
    layers::apply_loss(plan_.head.kind.loss, *head_, context, scale, settings, *at(slot).head);
  }

  /// Whether the row losses of the micro-batch are written by its backward pass, as the head computes the logits of its
  /// rows in parts there; else by loss().
  bool computes_loss_in_backward(int slot = 0) const {
    return range_.head && at(slot).keeps_activations && at(slot).head->in_parts;
  }

  /// Instead of loss(), with what a loss over a whole step gives (train/step_loss.hpp): row_losses (rows of the
  /// logits) and d_logits (such rows, outputs), contiguous. With a head whose logits are contiguous floats.
  void set_loss(const float* row_losses, const float* d_logits, int slot = 0);

  /// After loss(), beside a teacher: row losses become (1 − share) · loss + share · soft_losses (rows the head reads);
  /// factor · gradient (such rows, outputs) is added to the loss gradient.
  void mix_loss(float share, const float* soft_losses, float factor, Tensor<const float> gradient, int slot = 0);

  /// Adds to the gradients of all parameters. `finished(begin)` is called after each part of the model, the arena from
  /// element `begin` to this stage's end having its final gradients of this pass.
  void backward(layers::Engine& engine, const layers::StepContext& context, core::Workspace& workspace,
                const Finished& finished, int slot = 0);

  /// Everything but the gradients of parameters; those are added by backward_weight with the same `slot` and
  /// `deferred`.
  void backward_input(layers::Engine& engine, const layers::StepContext& context, core::Workspace& workspace, int slot,
                      int deferred);
  void backward_weight(layers::Engine& engine, const layers::StepContext& context, const Finished& finished, int slot,
                       int deferred);

  // Ends of a slot: (rows, hidden), without data if the stage has the embeddings or the head instead. The rows are all
  // tokens, or behind the last block's attention the rows that the head reads; in a pre-norm model z's, then y's.
  Matrix input(int slot) const { return at(slot).input; }
  Matrix output(int slot) const;  ///< stays until d_output is filled, whose memory it may be
  Matrix d_output(int slot) const;
  Matrix d_input(int slot) const { return at(slot).d_input; }  ///< if sends_gradient()
  /// Which of the two tensors, 0 or 1, the next backward pass writes its d_input to.
  int next_send_buffer() const { return next_send_buffer_; }

  // With a head:
  /// (rows the head reads, or sequences if it pools them, outputs here): contiguous floats but for a tied decoder on
  /// GPUs, which pads rows, and stores logits in the storage type if one rank has all outputs. Throws Error(internal)
  /// if the head computes them in parts.
  Matrix logits(int slot = 0) const {
    require_all_logits(slot);
    return at(slot).head->logits;
  }
  /// As of layers::Head::SavedActivations.
  Matrix sequence_logits(int slot = 0) const { return Matrix(at(slot).head->sequence_logits); }
  /// As of layers::Head.
  std::optional<layers::VocabularyShare> vocabulary_share(int slot = 0) const {
    return head_->vocabulary_share(*at(slot).head);
  }
  const float* row_losses(int slot = 0) const { return at(slot).head->row_losses.data; }  ///< (loss rows)
  /// Number of row losses: of rows that the head reads, or of sequences if it pools them.
  std::int64_t loss_rows(int slot = 0) const { return at(slot).head->row_losses.columns; }
  /// Writes the predicted class of each row that the head reads, in evaluation.
  void predict(std::int32_t* predicted, int slot = 0) { head_->predict(*at(slot).head, predicted); }

 private:
  void require_all_logits(int slot) const {
    core::require(!at(slot).head->in_parts, "stage: no pass stores the logits of all rows");
  }
  struct Slot {
    layers::RowSelection selection;  // of the last block
    std::int64_t sequences = 0;
    bool keeps_activations = false;
    Matrix input, d_input;  // (rows, hidden), or of both values of the stream
    Matrix d_output;        // of both values, if the stage hands on a sum; else it is the output's memory
    std::unique_ptr<layers::Input::SavedActivations> embeddings;  // null: another stage has them
    std::vector<std::unique_ptr<layers::Sublayer::SavedActivations>> sublayers;
    std::vector<Matrix> results;  // of runs_: memory for the result that backward computes again
    // If gathers_rows(): the rows that the head reads, their gradient, and the same in the type of sums over ranks.
    Matrix selected, d_selected, d_summed;
    std::unique_ptr<layers::Head::SavedActivations> head;  // null if another stage has the head
  };
  struct DeferredGradients {
    /// Gradients into each sublayer with a backward pass, except the one that is sent, and into the head if it is here.
    std::vector<layers::StreamGradient> d_inputs;
    std::vector<std::unique_ptr<layers::Sublayer::WeightGradientInputs>> sublayers;
  };
  /// Sublayers [first, last) that are computed again in the backward pass, together.
  struct Run {
    std::size_t first = 0, last = 0;
  };
  /// Offsets and sizes of the slots in the workspace, in bytes.
  struct Layout {
    std::int64_t slots_begin = 0, slot_size = 0, deferred_begin = 0, deferred_size = 0, send_buffers_begin = 0,
                 send_buffer_size = 0;
    std::int64_t recompute_begin = 0;  // what a run keeps while it is computed, for all slots and stages
    std::int64_t scratch_begin = 0;
    std::int64_t dropout_tiles = 0, dropout_bytes = 0;  // of BatchBounds; bytes of all slots that it makes
    int slots = 0, deferred = 0;
  };

  Slot& at(int slot) { return slots_[static_cast<std::size_t>(slot)]; }
  const Slot& at(int slot) const { return slots_[static_cast<std::size_t>(slot)]; }
  /// Null if the sublayer (counted from the stage's first) computes every row.
  const layers::RowSelection* selection(const Slot& slot, std::size_t sublayer) const {
    return plan_.computes_selection(range_.first + static_cast<std::int64_t>(sublayer)) ? &slot.selection : nullptr;
  }
  /// Number of rows of the sublayer's input, on all ranks of the group.
  std::int64_t rows_into(const Slot& slot, std::size_t sublayer, std::int64_t tokens) const {
    return plan_.receives_selection(range_.first + static_cast<std::int64_t>(sublayer)) ? slot.selection.rows.count
                                                                                        : tokens;
  }
  layers::Stream sublayer_input(const Slot& slot, std::size_t sublayer) const;
  /// Whether the stream into a sublayer, or out of the last one, has a sum beside the normalized value.
  bool has_sum(std::size_t sublayer) const {
    return plan_.hands_on_sum(range_.first + static_cast<std::int64_t>(sublayer));
  }
  /// Columns of the stream into a sublayer, or out of the last one.
  std::int64_t width(std::size_t sublayer) const {
    return plan_.width(range_.first + static_cast<std::int64_t>(sublayer));
  }
  /// Memory for what goes into a sublayer, or out of the last one: a matrix of one value or of both.
  Matrix take_message(core::Workspace& workspace, std::int64_t rows, std::size_t sublayer) const;
  layers::StreamGradient take_gradient(core::Workspace& workspace, std::int64_t rows, std::size_t sublayer) const;
  layers::StreamGradient gradient_of(const Matrix& message, std::size_t sublayer) const {
    if (!has_sum(sublayer)) return message;
    return {layers::first_half(message), layers::second_half(message)};
  }
  bool trains_embeddings() const { return embeddings_begin_ >= 0; }
  /// Whether the last sublayer computes all tokens and the head reads a selection of them.
  bool gathers_rows() const {
    return range_.head && !plan_.head.reads_all_tokens() && plan_.selects_from >= plan_.sublayer_count();
  }
  /// Rows that the last sublayer of this stage hands to the head.
  ConstMatrix last_values(const Slot& slot) const {
    return plan_.head_reads_sum ? slot.sublayers.back()->sum : slot.sublayers.back()->output;
  }
  ConstMatrix head_input(const Slot& slot) const { return gathers_rows() ? slot.selected : last_values(slot); }
  void gather_rows(const Slot& slot, std::int64_t tokens) const;
  /// d_y (rows of all tokens, hidden) = the gradient of the gathered rows, zeros elsewhere.
  void scatter_rows(const Slot& slot, std::int64_t tokens, const Matrix& d_y) const;
  /// Shows the stream at the edge in front of a sublayer, or behind the last one, to the pass's observer.
  void observe(const layers::Engine& engine, const layers::StepContext& context, const Slot& slot,
               std::size_t sublayer) const;
  void observe(const layers::Engine& engine, const layers::StepContext& context, const layers::StreamGradient& gradient,
               std::size_t sublayer) const;
  layers::StreamEdge edge_at(const layers::Engine& engine, std::size_t sublayer) const {
    const std::optional<layers::Linear>& projection = projections_[sublayer];
    return {range_.first + static_cast<std::int64_t>(sublayer), engine, group_, projection ? &*projection : nullptr};
  }
  void progress() const {
    if (progress_) progress_();
  }
  void allocate_send_buffer(core::Workspace& workspace, std::int64_t tokens, Slot& slot);
  void allocate_ping_pong(core::Workspace& workspace, std::int64_t tokens, const Slot& slot,
                          layers::StreamGradient* ping_pong) const;
  /// The first rows of a tensor of allocate_ping_pong(): as many as the input of a sublayer has.
  layers::StreamGradient first_rows(const layers::StreamGradient& gradient, std::int64_t rows,
                                    std::size_t sublayer) const;
  bool recomputes(std::size_t sublayer) const {
    return sublayer >= first_backward_ && plan_.recomputes(range_.first + static_cast<std::int64_t>(sublayer));
  }
  /// Whether a forward pass keeps the sublayer's result; that of the last one is the stage's.
  bool keeps_result(std::size_t sublayer) const {
    return sublayer + 1 == sublayers_.size() || plan_.keeps_result(range_.first + static_cast<std::int64_t>(sublayer));
  }
  void find_runs();
  /// Lays out each run in the region that all runs share, from the workspace's mark on, and sets slot.results. Results
  /// of the forward pass are not moved. Returns the region's end.
  std::int64_t allocate_runs(core::Workspace& workspace, std::int64_t tokens, Slot& slot) const;
  /// Computes the forward pass of a run again. Its result, which a gradient may have replaced, is written elsewhere.
  void recompute(layers::Engine& engine, const layers::StepContext& context, Slot& slot, std::size_t run);
  Slot make_slot() const;
  DeferredGradients make_deferred() const;
  void allocate_slot(core::Workspace& workspace, std::int64_t tokens, bool training, Slot& slot) const;
  void allocate_forward_only(core::Workspace& workspace, std::int64_t tokens, std::size_t count,
                             std::int64_t dropout_tiles, Slot& slot) const;
  void allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const Slot& slot,
                         DeferredGradients& deferred) const;
  void plan_slots(core::Workspace& workspace, const layers::BatchBounds& bounds, const StageMemory& memory);
  void plan_scratch(core::Workspace& workspace, const layers::BatchBounds& bounds);

  ModelPlan plan_;
  ModelRange range_;
  layers::TensorGroup group_;
  std::unique_ptr<layers::Input> embeddings_;  // the model's input; null: another stage has it
  std::vector<std::unique_ptr<layers::Sublayer>> sublayers_;
  std::unique_ptr<layers::Head> head_;                      // null if another stage has it
  std::vector<std::optional<layers::Linear>> projections_;  // in front of each sublayer and behind the last one
  // Arena offset of the first trainable parameter of each part; -1: it has none.
  std::vector<std::int64_t> sublayer_begin_, projection_begin_;
  std::int64_t embeddings_begin_ = -1, head_begin_ = -1;
  bool trains_head_ = false;  // parameters of its own, or word embeddings that are its decoder
  std::int64_t arena_begin_ = 0;
  /// The lowest sublayer with a backward pass; the number of sublayers: the head alone has one; one more: nothing has.
  std::size_t first_backward_ = 0;
  std::vector<Run> runs_;  // ascending
  Layout training_, evaluation_;
  int next_send_buffer_ = 0;
  std::function<void()> progress_;

  std::vector<Slot> slots_;
  std::vector<DeferredGradients> deferred_;
  DeferredGradients undeferred_;  // of backward(), one sublayer's at a time
};

/// The extents of every matrix product with these weights, each once, for micro-batches within the bounds. A matrix
/// product that has reserved memory for all of them needs no more in any pass.
std::vector<ops::ProductExtents> product_extents(std::span<const layers::LinearWeight> weights,
                                                 const layers::BatchBounds& bounds);
/// The same for all products of the stages.
std::vector<ops::ProductExtents> product_extents(std::span<const Stage> stages, const layers::BatchBounds& bounds);

}  // namespace bert_hpc::model
