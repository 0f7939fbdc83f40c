#include "bert_hpc/model/stage.hpp"

#include <algorithm>
#include <utility>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/distillation.hpp"

namespace bert_hpc::model {
namespace {

/// Arena offset of the first trainable one of these parameters; -1 if none is trainable.
std::int64_t trainable_begin(const core::ParameterStore& parameters, const std::vector<core::ParameterSpec>& specs) {
  for (const core::ParameterSpec& spec : specs) {
    const core::ParameterSlice& slice = parameters.slices()[static_cast<std::size_t>(parameters.find(spec.name))];
    if (slice.trainable) return slice.offset;
  }
  return -1;
}

}  // namespace

Stage::Stage(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs, const ModelRange& range,
             const core::ParameterStore& parameters, const layers::TensorGroup& group, DataType storage,
             bool fuses_row_sums)
    : Stage(make_plan(config, kind, outputs, storage), range, parameters, group, fuses_row_sums) {}

Stage::Stage(const ModelPlan& plan, const ModelRange& range, const core::ParameterStore& parameters,
             const layers::TensorGroup& group, bool fuses_row_sums)
    : plan_(plan), range_(range), group_(group) {
  for (std::int64_t i = range.first; i < range.last; ++i) {
    layers::SublayerSettings settings = plan_.sublayers[static_cast<std::size_t>(i)];
    settings.fuses_row_sums = fuses_row_sums;
    settings.sum_in = plan_.hands_on_sum(i);
    settings.sum_out = plan_.hands_on_sum(i + 1);
    std::vector<core::ParameterSpec> of_sublayer;
    layers::declare_sublayer(settings, of_sublayer);
    sublayers_.push_back(layers::make_sublayer(settings, parameters, group));
    sublayer_begin_.push_back(trainable_begin(parameters, of_sublayer));
  }
  for (std::int64_t edge = range.first; edge <= range.last; ++edge) {
    const bool is_here = edge > range.first || range.embeddings;
    const Projection* const projection = is_here ? plan_.projection_at(edge) : nullptr;
    projections_.emplace_back();
    projection_begin_.push_back(-1);
    if (projection == nullptr) continue;
    projections_.back().emplace(parameters, layers::LinearSettings{.weight = projection->name + ".weight",
                                                                   .bias = projection->name + ".bias",
                                                                   .in_encoder = false});
    std::vector<core::ParameterSpec> of_projection;
    declare_projection(plan_, edge, of_projection);
    projection_begin_.back() = trainable_begin(parameters, of_projection);
  }
  const std::int64_t own = trainable_begin(parameters, model_parameters(plan_, range));
  arena_begin_ = own < 0 ? parameters.trainable_size() : own;
  if (range.embeddings) {
    std::vector<core::ParameterSpec> of_embeddings;
    plan_.input->declare(of_embeddings, {});
    embeddings_begin_ = trainable_begin(parameters, of_embeddings);
    embeddings_ = plan_.input->make(parameters, group, plan_.storage);
  }
  if (range.head) {
    layers::HeadSettings settings = head_of(plan_, range);
    // A GPU's products take operands in one type, and are slower on rows of odd length.
    settings.logits = core::is_gpu_build() ? plan.head.storage : DataType::fp32;
    settings.pads_logits = core::is_gpu_build();
    std::vector<core::ParameterSpec> of_head;
    layers::declare_head(settings, of_head);
    head_ = layers::make_head(settings, parameters, group);
    head_begin_ = trainable_begin(parameters, of_head);
    const bool decodes_by_embeddings = settings.kind.predicts_tokens && !settings.declares_decoder;
    trains_head_ = head_begin_ >= 0 || (decodes_by_embeddings && trains_embeddings());
  }
  if (!trains_embeddings() && !sends_gradient()) {
    while (first_backward_ < sublayers_.size() && sublayer_begin_[first_backward_] < 0) ++first_backward_;
    if (first_backward_ == sublayers_.size() && !trains_head_) ++first_backward_;
  }
  find_runs();
}

std::vector<layers::LinearWeight> Stage::block_weights() const {
  std::vector<layers::LinearWeight> all;
  for (std::size_t i = 0; i < sublayers_.size(); ++i) {
    const bool selects = plan_.computes_selection(range_.first + static_cast<std::int64_t>(i));
    for (layers::LinearWeight& weight : sublayers_[i]->linear_weights(selects)) all.push_back(std::move(weight));
  }
  return all;
}

std::vector<layers::LinearWeight> Stage::linear_weights() const {
  std::vector<layers::LinearWeight> all = block_weights();
  for (const std::unique_ptr<layers::Sublayer>& sublayer : sublayers_) {
    for (layers::LinearWeight& weight : sublayer->other_weights()) all.push_back(std::move(weight));
  }
  if (embeddings_) {
    for (layers::LinearWeight& weight : embeddings_->linear_weights()) all.push_back(std::move(weight));
  }
  for (const std::optional<layers::Linear>& projection : projections_) {
    if (projection) projection->list_weights(false, all);
  }
  if (!range_.head) return all;
  for (layers::LinearWeight& weight : head_->linear_weights()) all.push_back(std::move(weight));
  return all;
}

std::vector<std::int64_t> Stage::finished_begins() const {
  std::vector<std::int64_t> begins = {embeddings_begin_};
  for (std::size_t i = 0; i <= sublayer_begin_.size(); ++i) {
    begins.push_back(projection_begin_[i]);
    if (i < sublayer_begin_.size()) begins.push_back(sublayer_begin_[i]);
  }
  begins.push_back(head_begin_);
  std::erase(begins, -1);
  return begins;
}

Matrix Stage::output(int slot) const {
  if (range_.head) return {};
  const layers::Sublayer::SavedActivations& last = *at(slot).sublayers.back();
  return has_sum(sublayers_.size()) ? last.both : last.output;
}

Matrix Stage::d_output(int slot) const {
  return has_sum(sublayers_.size()) ? at(slot).d_output : output(slot);
}

layers::Stream Stage::sublayer_input(const Slot& slot, std::size_t sublayer) const {
  const bool has = has_sum(sublayer);
  if (sublayer > 0) {
    const layers::Sublayer::SavedActivations& before = *slot.sublayers[sublayer - 1];
    return has ? layers::Stream(before.sum, before.output) : layers::Stream(before.output);
  }
  if (range_.embeddings) {
    const layers::Input::SavedActivations& saved = *slot.embeddings;
    return has ? layers::Stream(saved.sum, saved.output) : layers::Stream(saved.output);
  }
  return has ? layers::Stream(layers::first_half(slot.input), layers::second_half(slot.input))
             : layers::Stream(slot.input);
}

void Stage::open(core::Workspace& workspace, const layers::StepContext& context, int slot) {
  const Layout& layout = context.keeps_activations() ? training_ : evaluation_;
  core::require(slot < layout.slots, "stage: a slot that was not planned");
  const std::int64_t mark = workspace.mark(), begin = layout.slots_begin + slot * layout.slot_size;
  Slot& opened = at(slot);
  opened.selection = {context.batch.targets.rows, context.batch.targets.index};
  opened.sequences = context.batch.sequences;
  opened.keeps_activations = context.keeps_activations();
  workspace.release(begin);
  allocate_slot(workspace, context.batch.tokens.count, context.keeps_activations(), opened);
  core::require(workspace.mark() - begin <= layout.slot_size, "stage: a micro-batch larger than was planned");
  if (context.keeps_activations()) {
    workspace.release(training_.recompute_begin);
    allocate_runs(workspace, context.batch.tokens.count, opened);
  }
  workspace.release(mark);
}

void Stage::find_runs() {
  for (std::size_t i = first_backward_; i < sublayers_.size(); ++i) {
    if (!recomputes(i)) continue;
    const bool goes_on = !runs_.empty() && runs_.back().last == i && !keeps_result(i - 1);
    if (goes_on) {
      runs_.back().last = i + 1;
    } else {
      runs_.push_back({i, i + 1});
    }
  }
}

void Stage::recompute(layers::Engine& engine, const layers::StepContext& context, Slot& slot, std::size_t run) {
  const auto [first, last] = runs_[run];
  layers::StepContext again = context;
  again.attention_observer = nullptr;  // it has seen this pass
  Matrix& result = slot.sublayers[last - 1]->output;
  const Matrix kept = std::exchange(result, slot.results[run]);
  for (std::size_t i = first; i < last; ++i) {
    sublayers_[i]->forward(engine, again, selection(slot, i), sublayer_input(slot, i), *slot.sublayers[i]);
    progress();
  }
  result = kept;
}

void Stage::forward(layers::Engine& engine, const layers::StepContext& context, int slot) {
  Slot& s = at(slot);
  if (range_.embeddings) {
    embeddings_->forward(engine, context, *s.embeddings);
    observe(engine, context, s, 0);
  }
  for (std::size_t i = 0; i < sublayers_.size(); ++i) {
    sublayers_[i]->forward(engine, context, selection(s, i), sublayer_input(s, i), *s.sublayers[i]);
    observe(engine, context, s, i + 1);
    progress();
  }
  if (gathers_rows()) gather_rows(s, context.batch.tokens.count);
  if (range_.head) head_->forward(engine, context, head_input(s), *s.head);
}

void Stage::gather_rows(const Slot& slot, std::int64_t tokens) const {
  const std::int32_t* const index = slot.selection.index + group_.begin(slot.selection.rows.count);
  ops::gather_rows(group_.gather(last_values(slot), tokens), index, slot.selected);
}

void Stage::scatter_rows(const Slot& slot, std::int64_t tokens, const Matrix& d_y) const {
  const std::int32_t* const index = slot.selection.index + group_.begin(slot.selection.rows.count);
  const Matrix sum = group_.partial(d_y, tokens);
  core::fill_on_device(sum.data, 0, static_cast<std::size_t>(sum.size() * core::bytes_of(sum.type)));
  if (sum.type != slot.d_selected.type) ops::copy(slot.d_selected, slot.d_summed);
  ops::scatter_add_rows(sum.type != slot.d_selected.type ? slot.d_summed : slot.d_selected, index, sum);
  group_.sum(sum, d_y);
}

void Stage::observe(const layers::Engine& engine, const layers::StepContext& context, const Slot& slot,
                    std::size_t sublayer) const {
  if (context.observer == nullptr) return;
  context.observer->forward(edge_at(engine, sublayer), context, sublayer_input(slot, sublayer).residual);
}

void Stage::observe(const layers::Engine& engine, const layers::StepContext& context,
                    const layers::StreamGradient& gradient, std::size_t sublayer) const {
  const bool is_computed_here = sublayer > 0 || range_.embeddings;
  if (context.observer == nullptr || !is_computed_here) return;
  context.observer->backward(edge_at(engine, sublayer), context, has_sum(sublayer) ? gradient.residual : gradient.y);
}

void Stage::set_loss(const float* row_losses, const float* d_logits, int slot) {
  require_all_logits(slot);
  layers::Head::SavedActivations& saved = *at(slot).head;
  const Tensor<float> logits = saved.logits.as<float>();
  core::require(logits.stride == logits.columns, "stage: gradients of padded logits are not set from outside");
  const auto rows = static_cast<std::size_t>(logits.rows);
  core::copy_on_device(row_losses, saved.row_losses.data, rows * sizeof(float));
  core::copy_on_device(d_logits, logits.data, rows * static_cast<std::size_t>(logits.columns) * sizeof(float));
}

void Stage::mix_loss(float share, const float* soft_losses, float factor, Tensor<const float> gradient, int slot) {
  require_all_logits(slot);
  layers::Head::SavedActivations& saved = *at(slot).head;
  ops::add_soft_gradient(factor, gradient, saved.logits);
  ops::mix_losses(share, soft_losses, saved.logits.rows, saved.row_losses.data);
}

void Stage::backward(layers::Engine& engine, const layers::StepContext& context, core::Workspace& workspace,
                     const Finished& finished, int slot) {
  Slot& s = at(slot);
  const std::int64_t tokens = context.batch.tokens.count, mark = workspace.mark();
  allocate_send_buffer(workspace, tokens, s);
  workspace.release(training_.scratch_begin);
  layers::StreamGradient ping_pong[2];
  allocate_ping_pong(workspace, tokens, s, ping_pong);
  layers::StreamGradient d_y = gradient_of(d_output(slot), sublayers_.size());
  int turn = 0;

  if (range_.head) {
    d_y = first_rows(ping_pong[turn], rows_into(s, sublayers_.size(), tokens), sublayers_.size());
    turn = 1 - turn;
    head_->backward_input(engine, context, *s.head, gathers_rows() ? s.d_selected : d_y.y);
    if (gathers_rows()) scatter_rows(s, tokens, d_y.y);
    if (trains_head_) head_->backward_weight(engine, *s.head, head_input(s));
    if (head_begin_ >= 0) finished(head_begin_);
  }
  observe(engine, context, d_y, sublayers_.size());
  if (projection_begin_.back() >= 0) finished(projection_begin_.back());
  std::size_t run = runs_.size();
  for (std::size_t i = sublayers_.size(); i-- > first_backward_;) {
    if (run > 0 && runs_[run - 1].last == i + 1) recompute(engine, context, s, --run);
    const bool sent = i == 0 && sends_gradient();
    const layers::StreamGradient d_x =
        sent ? gradient_of(s.d_input, i) : first_rows(ping_pong[turn], rows_into(s, i, tokens), i);
    const std::int64_t sublayer_mark = workspace.mark();
    layers::Sublayer::WeightGradientInputs& deferred = *undeferred_.sublayers[i];
    sublayers_[i]->allocate_deferred(workspace, tokens, selection(s, i), deferred);
    deferred.at_once = true;
    sublayers_[i]->backward_input(engine, context, selection(s, i), *s.sublayers[i], d_y, deferred, d_x, workspace);
    if (sublayer_begin_[i] >= 0) {
      sublayers_[i]->backward_weight(engine, context, selection(s, i), *s.sublayers[i], deferred,
                                     sublayer_input(s, i).y);
    }
    workspace.release(sublayer_mark);
    if (sublayer_begin_[i] >= 0) finished(sublayer_begin_[i]);
    observe(engine, context, d_x, i);
    if (projection_begin_[i] >= 0) finished(projection_begin_[i]);
    progress();
    d_y = d_x;
    turn = 1 - turn;
  }
  if (trains_embeddings()) {
    embeddings_->backward_weight(engine, context, *s.embeddings, d_y);
    finished(embeddings_begin_);
  }
  workspace.release(mark);
}

void Stage::backward_input(layers::Engine& engine, const layers::StepContext& context, core::Workspace& workspace,
                           int slot, int deferred) {
  Slot& s = at(slot);
  DeferredGradients& k = deferred_[static_cast<std::size_t>(deferred)];
  core::require(deferred < training_.deferred, "stage: the parts of the backward pass were not planned to be separate");
  const std::int64_t mark = workspace.mark();
  workspace.release(training_.deferred_begin + deferred * training_.deferred_size);
  allocate_deferred(workspace, context.batch.tokens.count, s, k);
  allocate_send_buffer(workspace, context.batch.tokens.count, s);
  workspace.release(training_.scratch_begin);
  layers::StreamGradient d_y = range_.head ? k.d_inputs.back() : gradient_of(d_output(slot), sublayers_.size());
  if (range_.head) head_->backward_input(engine, context, *s.head, gathers_rows() ? s.d_selected : d_y.y);
  if (gathers_rows()) scatter_rows(s, context.batch.tokens.count, d_y.y);
  observe(engine, context, d_y, sublayers_.size());
  for (std::size_t i = sublayers_.size(); i-- > first_backward_;) {
    const bool sent = i == 0 && sends_gradient();
    const layers::StreamGradient d_x = sent ? gradient_of(s.d_input, i) : k.d_inputs[i];
    sublayers_[i]->backward_input(engine, context, selection(s, i), *s.sublayers[i], d_y, *k.sublayers[i], d_x,
                                  workspace);
    observe(engine, context, d_x, i);
    progress();
    d_y = d_x;
  }
  workspace.release(mark);
}

void Stage::backward_weight(layers::Engine& engine, const layers::StepContext& context, const Finished& finished,
                            int slot, int deferred) {
  const Slot& s = at(slot);
  const DeferredGradients& k = deferred_[static_cast<std::size_t>(deferred)];
  if (trains_head_) head_->backward_weight(engine, *s.head, head_input(s));
  if (head_begin_ >= 0) finished(head_begin_);
  for (std::size_t i = sublayers_.size(); i-- > first_backward_;) {
    if (sublayer_begin_[i] < 0) continue;
    sublayers_[i]->backward_weight(engine, context, selection(s, i), *s.sublayers[i], *k.sublayers[i],
                                   sublayer_input(s, i).y);
    finished(sublayer_begin_[i]);
    progress();
  }
  if (trains_embeddings()) {
    embeddings_->backward_weight(engine, context, *s.embeddings, k.d_inputs.front());
    finished(embeddings_begin_);
  }
}

}  // namespace bert_hpc::model
