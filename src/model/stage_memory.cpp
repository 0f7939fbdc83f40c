// Layout of a stage's tensors in the workspace: slots one behind the other, then what is kept between the parts of a
// backward pass, gradients to be sent, and scratch. A slot is as large as the largest micro-batch needs; a smaller one
// uses its begin.
#include <algorithm>
#include <set>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/stage.hpp"

namespace bert_hpc::model {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

Matrix Stage::take_message(core::Workspace& workspace, std::int64_t rows, std::size_t sublayer) const {
  const std::int64_t columns = width(sublayer);
  return has_sum(sublayer) ? layers::take_stream(workspace, group_, rows, columns, plan_.storage)
                           : group_.take(workspace, rows, columns, plan_.storage);
}

layers::StreamGradient Stage::take_gradient(core::Workspace& workspace, std::int64_t rows, std::size_t sublayer) const {
  return gradient_of(take_message(workspace, rows, sublayer), sublayer);
}

void Stage::allocate_send_buffer(core::Workspace& workspace, std::int64_t tokens, Slot& slot) {
  if (!sends_gradient()) return;
  workspace.release(training_.send_buffers_begin + next_send_buffer_ * training_.send_buffer_size);
  slot.d_input = take_message(workspace, rows_into(slot, 0, tokens), 0);
  next_send_buffer_ = 1 - next_send_buffer_;
}

/// As backward() needs them: two gradients between the parts of a stage, which take turns.
void Stage::allocate_ping_pong(core::Workspace& workspace, std::int64_t tokens, const Slot& slot,
                               layers::StreamGradient* ping_pong) const {
  const std::int64_t most = std::max(tokens, slot.selection.rows.count);
  std::int64_t columns = 0;
  bool sums = false;
  for (std::size_t i = 0; i <= sublayers_.size(); ++i) {
    columns = std::max(columns, width(i));
    sums = sums || has_sum(i);
  }
  for (int i = 0; i < 2; ++i) {
    ping_pong[i].y = group_.take(workspace, most, columns, plan_.storage);
    if (sums) ping_pong[i].residual = group_.take(workspace, most, columns, plan_.storage);
  }
}

layers::StreamGradient Stage::first_rows(const layers::StreamGradient& gradient, std::int64_t rows,
                                         std::size_t sublayer) const {
  const auto first = [&](const Matrix& all) {
    Matrix part = group_.first(all, rows);
    part.columns = part.stride = width(sublayer);
    return part;
  };
  const Matrix y = first(gradient.y);
  return has_sum(sublayer) ? layers::StreamGradient(first(gradient.residual), y) : layers::StreamGradient(y);
}

/// Without a backward pass, as the first `count` sublayers are then, the results of a sublayer are needed by the next
/// one only: two regions alternate. Sublayers that compute a selection, with fewer rows in more tensors, follow them.
void Stage::allocate_forward_only(core::Workspace& workspace, std::int64_t tokens, std::size_t count,
                                  std::int64_t dropout_tiles, Slot& slot) const {
  const auto allocate = [&](std::size_t i, std::int64_t begin) {
    workspace.release(begin);
    sublayers_[i]->allocate_saved(workspace, tokens, selection(slot, i), dropout_tiles, *slot.sublayers[i]);
    return workspace.mark();
  };
  const std::int64_t begin = workspace.mark();
  std::int64_t sizes[2] = {0, 0};
  for (std::size_t i = 0; i < count; ++i) {
    if (selection(slot, i) == nullptr) sizes[i % 2] = std::max(sizes[i % 2], allocate(i, begin) - begin);
  }
  std::int64_t end = begin + sizes[0] + sizes[1];
  for (std::size_t i = 0; i < count; ++i) {
    if (selection(slot, i) == nullptr) {
      allocate(i, i % 2 == 0 ? begin : begin + sizes[0]);
    } else {
      end = allocate(i, end);
    }
  }
  workspace.release(end);
}

Stage::Slot Stage::make_slot() const {
  Slot slot;
  for (const auto& sublayer : sublayers_) slot.sublayers.push_back(sublayer->make_saved());
  slot.results.resize(runs_.size());
  if (embeddings_) slot.embeddings = embeddings_->make_saved();
  if (head_) slot.head = head_->make_saved();
  return slot;
}

Stage::DeferredGradients Stage::make_deferred() const {
  DeferredGradients deferred;
  deferred.d_inputs.reserve(sublayers_.size() + 1);
  for (const auto& sublayer : sublayers_) deferred.sublayers.push_back(sublayer->make_deferred());
  return deferred;
}

void Stage::allocate_slot(core::Workspace& workspace, std::int64_t tokens, bool training, Slot& slot) const {
  if (range_.embeddings) {
    embeddings_->allocate_saved(workspace, tokens, *slot.embeddings);
  } else {
    slot.input = take_message(workspace, rows_into(slot, 0, tokens), 0);
  }
  const std::size_t forward_only = training ? std::min(first_backward_, sublayers_.size()) : sublayers_.size();
  // Forward of a training needs room for what dropout keeps, even where backward does not read it.
  const std::int64_t dropout_tiles = (training ? training_ : evaluation_).dropout_tiles;
  allocate_forward_only(workspace, tokens, forward_only, dropout_tiles, slot);
  for (std::size_t i = forward_only; i < sublayers_.size(); ++i) {
    if (!training || !recomputes(i)) {
      sublayers_[i]->allocate_saved(workspace, tokens, selection(slot, i), dropout_tiles, *slot.sublayers[i]);
    } else if (keeps_result(i)) {
      const layers::RowSelection* const selected = selection(slot, i);
      layers::Sublayer::SavedActivations& kept = *slot.sublayers[i];
      const Matrix result = take_message(workspace, selected != nullptr ? selected->rows.count : tokens, i + 1);
      kept.both = has_sum(i + 1) ? result : Matrix();
      kept.sum = has_sum(i + 1) ? layers::first_half(result) : Matrix();
      kept.output = has_sum(i + 1) ? layers::second_half(result) : result;
    }
  }
  if (training && has_sum(sublayers_.size())) {
    const bool selects = selection(slot, sublayers_.size() - 1) != nullptr;
    slot.d_output = take_message(workspace, selects ? slot.selection.rows.count : tokens, sublayers_.size());
  }
  if (!range_.head) return;
  const std::int64_t rows = slot.selection.rows.count;
  if (gathers_rows()) {
    const std::int64_t columns = width(sublayers_.size());
    const DataType summed = group_.partial_type(plan_.storage);
    slot.selected = group_.take(workspace, rows, columns, plan_.storage);
    if (training) slot.d_selected = group_.take(workspace, rows, columns, plan_.storage);
    if (training && summed != plan_.storage) slot.d_summed = group_.take(workspace, rows, columns, summed);
  }
  // Weight gradients that are computed later than those of inputs read the gradients of all logits.
  const bool stores_logits = plan_.head.reads_all_logits || (training && training_.deferred > 0);
  head_->allocate_saved(workspace, {rows, tokens, slot.sequences, stores_logits}, *slot.head);
}

std::int64_t Stage::allocate_runs(core::Workspace& workspace, std::int64_t tokens, Slot& slot) const {
  const std::int64_t begin = workspace.mark();
  std::int64_t end = begin;
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    workspace.release(begin);
    layers::Sublayer::SavedActivations& last = *slot.sublayers[runs_[r].last - 1];
    const Matrix kept = last.output, kept_sum = last.sum, kept_both = last.both;
    for (std::size_t i = runs_[r].first; i < runs_[r].last; ++i) {
      sublayers_[i]->allocate_saved(workspace, tokens, selection(slot, i), training_.dropout_tiles, *slot.sublayers[i]);
    }
    slot.results[r] = std::exchange(last.output, kept);
    if (has_sum(runs_[r].last)) {  // every pass over the run writes the same sum, which no gradient replaces
      last.sum = kept_sum;
      last.both = kept_both;
    }
    end = std::max(end, workspace.mark());
  }
  workspace.release(end);
  return end;
}

void Stage::allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const Slot& slot,
                              DeferredGradients& deferred) const {
  // Gradients between the parts of this stage; that of the last output, without a head, is the caller's.
  const std::size_t first = std::max<std::size_t>(first_backward_, sends_gradient() ? 1 : 0);
  deferred.d_inputs.assign(sublayers_.size() + (range_.head ? 1 : 0), layers::StreamGradient());
  for (std::size_t i = first; i < deferred.d_inputs.size(); ++i) {
    deferred.d_inputs[i] = take_gradient(workspace, rows_into(slot, i, tokens), i);
  }
  for (std::size_t i = first_backward_; i < sublayers_.size(); ++i) {
    sublayers_[i]->allocate_deferred(workspace, tokens, selection(slot, i), *deferred.sublayers[i]);
  }
}

void Stage::plan_slots(core::Workspace& workspace, const layers::BatchBounds& bounds, const StageMemory& memory) {
  Slot slot = make_slot();
  slot.selection.rows.count = bounds.selected;
  slot.sequences = bounds.sequences;
  Layout& layout = memory.training ? training_ : evaluation_;
  layout = {};
  layout.slots = memory.slots;
  layout.deferred = memory.deferred;
  layout.dropout_tiles = bounds.dropout_tiles;
  layout.slots_begin = aligned(workspace.mark());
  allocate_slot(workspace, bounds.tokens, memory.training, slot);
  layout.slot_size = aligned(workspace.mark() - layout.slots_begin);
  for (std::size_t i = first_backward_; i < slot.sublayers.size(); ++i) {
    if (recomputes(i)) continue;
    layout.dropout_bytes += memory.slots * slot.sublayers[i]->dropout_bytes;
  }
  layout.deferred_begin = layout.slots_begin + memory.slots * layout.slot_size;
  if (memory.deferred > 0) {
    DeferredGradients deferred = make_deferred();
    workspace.release(layout.deferred_begin);
    allocate_deferred(workspace, bounds.tokens, slot, deferred);
    layout.deferred_size = aligned(workspace.mark() - layout.deferred_begin);
  }
  // Made here, so that nothing is in the step loop.
  while (std::ssize(slots_) < memory.slots) slots_.push_back(make_slot());
  while (std::ssize(deferred_) < memory.deferred) deferred_.push_back(make_deferred());
  layout.send_buffers_begin = layout.deferred_begin + memory.deferred * layout.deferred_size;
  if (memory.training && sends_gradient()) {
    const std::int64_t rows = rows_into(slot, 0, bounds.tokens);
    layout.send_buffer_size =
        aligned((has_sum(0) ? 2 : 1) * group_.capacity(rows) * width(0) * core::bytes_of(plan_.storage));
  }
  const std::int64_t end = layout.send_buffers_begin + 2 * layout.send_buffer_size;
  workspace.release(layout.slots_begin);
  workspace.take<unsigned char>(1, end - layout.slots_begin);
}

void Stage::plan_scratch(core::Workspace& workspace, const layers::BatchBounds& bounds) {
  // As in backward(): two gradients that take turns, and what one sublayer keeps.
  const std::int64_t begin = workspace.mark();
  Slot slot;
  slot.selection.rows.count = bounds.selected;
  undeferred_ = make_deferred();
  layers::StreamGradient ping_pong[2];
  if (training_.deferred == 0 && has_backward()) allocate_ping_pong(workspace, bounds.tokens, slot, ping_pong);
  for (std::size_t i = first_backward_; i < sublayers_.size(); ++i) {
    const std::int64_t mark = workspace.mark();
    if (training_.deferred == 0) {
      sublayers_[i]->allocate_deferred(workspace, bounds.tokens, selection(slot, i), *undeferred_.sublayers[i]);
    }
    sublayers_[i]->plan_scratch(workspace, bounds.tokens, selection(slot, i));
    workspace.release(mark);
  }
  workspace.release(begin);
}

std::vector<ops::ProductExtents> product_extents(std::span<const layers::LinearWeight> weights,
                                                 const layers::BatchBounds& bounds) {
  std::set<ops::ProductExtents> distinct;
  for (const layers::LinearWeight& weight : weights) distinct.insert(weight.extents(bounds));
  return {distinct.begin(), distinct.end()};
}

std::vector<ops::ProductExtents> product_extents(std::span<const Stage> stages, const layers::BatchBounds& bounds) {
  std::vector<layers::LinearWeight> weights;
  for (const Stage& stage : stages) {
    for (layers::LinearWeight& weight : stage.linear_weights()) weights.push_back(std::move(weight));
  }
  return product_extents(weights, bounds);
}

void Stage::plan(core::Workspace& workspace, const layers::BatchBounds& bounds, const StageMemory& memory) {
  plan(std::span(this, 1), workspace, bounds, std::span(&memory, 1));
}

void Stage::plan(std::span<Stage> stages, core::Workspace& workspace, const layers::BatchBounds& bounds,
                 std::span<const StageMemory> memory) {
  workspace.release(0);
  for (std::size_t i = 0; i < stages.size(); ++i) stages[i].plan_slots(workspace, bounds, memory[i]);
  if (memory.front().training) {
    const std::int64_t shared = aligned(workspace.mark());
    std::int64_t end = shared;
    for (Stage& stage : stages) {
      Slot slot = stage.make_slot();
      slot.selection.rows.count = bounds.selected;
      workspace.release(shared);
      stage.training_.recompute_begin = shared;
      end = std::max(end, stage.allocate_runs(workspace, bounds.tokens, slot));
      core::require(stage.runs_.empty() || stage.training_.deferred == 0,
                    "stage: recomputation needs both parts of the backward pass at once");
    }
    workspace.release(end);
    const std::int64_t scratch = aligned(end);
    for (Stage& stage : stages) {
      stage.training_.scratch_begin = scratch;
      workspace.release(scratch);
      stage.plan_scratch(workspace, bounds);
    }
  }
  workspace.release(0);
}

}  // namespace bert_hpc::model
