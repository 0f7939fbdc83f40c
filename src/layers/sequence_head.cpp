#include "sequence_head.hpp"

#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::layers {

void SequenceHead::declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs, const TensorRank&) {
  specs.push_back({settings.dense + ".weight", {settings.hidden, settings.hidden}});
  if (settings.dense_bias) declare_vector(specs, {.name = settings.dense + ".bias", .shape = {settings.hidden}});
  if (settings.norms_dense) declare_norm(specs, settings.norm, settings.hidden, settings.norm_kind);
  specs.push_back({settings.classifier + ".weight", {settings.outputs, settings.hidden}});
  declare_vector(specs, {.name = settings.classifier + ".bias", .shape = {settings.outputs}});
}

SequenceHead::SequenceHead(const HeadSettings& settings, const core::ParameterStore& parameters,
                           const TensorGroup& group)
    : settings_(settings),
      group_(group),
      pooler_(parameters, {.weight = settings.dense + ".weight",
                           .bias = settings.dense_bias ? settings.dense + ".bias" : "",
                           .in_encoder = false}),
      classifier_(
          parameters,
          {.weight = settings.classifier + ".weight", .bias = settings.classifier + ".bias", .in_encoder = false}) {
  core::require(!settings.pooling || !drops_input(), "sequence head: dropout before or behind pooling is not known");
  core::require(!settings.pools_dense || (settings.pooling && !settings.norms_dense), "sequence head: what is pooled?");
  if (settings.norms_dense) norm_.emplace(parameters, settings.norm, settings.norm_kind);
}

void SequenceHead::allocate_saved(core::Workspace& workspace, const HeadBatch& rows,
                                  SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  saved = {};
  const std::int64_t dense_rows = settings_.pools_dense ? rows.tokens : rows.selected;
  if (drops_input() || pools_input()) saved.input = workspace.take(rows.selected, settings_.hidden, settings_.storage);
  saved.activated = saved.dense = workspace.take(dense_rows, settings_.hidden, settings_.storage);
  if (settings_.activation == Activation::gelu) {
    saved.activated = workspace.take(dense_rows, settings_.hidden, settings_.storage);
  }
  saved.features = workspace.take(rows.selected, settings_.hidden, settings_.storage);
  saved.d_features = saved.d_dense = workspace.take(rows.selected, settings_.hidden, settings_.storage);
  if (settings_.norms_dense) {
    saved.normalized = workspace.take(rows.selected, settings_.hidden, settings_.storage);
    saved.statistics = workspace.take<float>(2, rows.selected);
    saved.d_dense = workspace.take(rows.selected, settings_.hidden, settings_.storage);
  }
  if (settings_.pools_dense) saved.d_dense = workspace.take(dense_rows, settings_.hidden, settings_.storage);
  if (pools_input()) saved.d_input = workspace.take(rows.selected, settings_.hidden, settings_.storage);
  saved.logits = workspace.take<float>(rows.selected, settings_.outputs);
  saved.row_losses = workspace.take<float>(1, rows.selected);
}

std::vector<LinearWeight> SequenceHead::linear_weights() const {
  return {pooler_.weight(!settings_.pools_dense), classifier_.weight(true)};
}

void SequenceHead::activate(Saved& saved) const {
  switch (settings_.activation) {
    case Activation::gelu:
      return ops::gelu_forward(saved.dense, saved.activated);
    case Activation::relu:
      return ops::relu_forward(saved.dense, saved.activated);
    default:
      return ops::tanh_forward(saved.dense, saved.activated);
  }
}

void SequenceHead::activate_backward(const Saved& saved, const Matrix& d_activated) const {
  switch (settings_.activation) {
    case Activation::gelu:
      return ops::gelu_backward(saved.dense, d_activated, saved.d_dense);
    case Activation::relu:
      return ops::relu_backward(saved.activated, d_activated, saved.d_dense);
    default:
      return ops::tanh_backward(saved.activated, d_activated, saved.d_dense);
  }
}

void SequenceHead::normalize(const core::TokenRows& rows, Saved& saved) const {
  ops::residual_layer_norm_forward({}, rows, saved.activated, nullptr, {}, norm_->gamma(), norm_->beta(),
                                   settings_.layer_norm_epsilon, saved.normalized, norm_->mean(saved.statistics),
                                   norm_->rstd(saved.statistics));
}

void SequenceHead::forward(Engine& engine, const StepContext& context, ConstMatrix x,
                           SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::TokenRows &rows = context.batch.targets.rows, &tokens = context.batch.tokens;
  if (pools_input()) {
    ops::pool_rows(*settings_.pooling, group_.gather(x, tokens.count), tokens, context.batch.lengths, saved.input);
  }
  if (drops_input()) {
    ops::dropout(context.dropout(settings_.input_dropout, settings_.site + 1), rows, group_.gather(x, rows.count),
                 saved.input);
  }
  pooler_.forward(engine, input(saved, x, saved.dense.rows), saved.dense);
  activate(saved);
  if (settings_.norms_dense) normalize(rows, saved);
  Matrix dropped = settings_.norms_dense ? saved.normalized : saved.activated;
  if (settings_.pools_dense) {
    dropped = saved.features;
    ops::pool_rows(*settings_.pooling, saved.activated, tokens, context.batch.lengths, dropped);
  }
  ops::dropout(context.dropout(settings_.classifier_dropout, settings_.site), rows, dropped, saved.features);
  classifier_.forward(engine, saved.features, saved.logits);
}

void SequenceHead::predict(SavedActivations& saved, std::int32_t* predicted) const {
  ops::arg_max(saved.logits, predicted);
}

void SequenceHead::backward_input(Engine& engine, const StepContext& context, SavedActivations& of_micro_batch,
                                  Matrix d_x) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  classifier_.backward_input(engine, saved.logits, saved.d_features, ops::Write::replace);
  ops::dropout(context.dropout(settings_.classifier_dropout, settings_.site), context.batch.targets.rows,
               saved.d_features, saved.d_features);
  if (settings_.norms_dense) {
    ops::residual_layer_norm_backward({}, context.batch.targets.rows, saved.d_features, saved.activated, norm_->gamma(),
                                      norm_->mean(saved.statistics), norm_->rstd(saved.statistics), saved.d_dense, {});
  }
  if (settings_.pools_dense) {
    ops::pool_rows_backward(*settings_.pooling, {}, context.batch.tokens, context.batch.lengths, saved.d_features,
                            saved.d_dense);
  }
  activate_backward(saved, settings_.norms_dense || settings_.pools_dense ? saved.d_dense : saved.d_features);
  if (pools_input()) {
    pooler_.backward_input(engine, saved.d_dense, saved.d_input, ops::Write::replace);
    core::TokenRows tokens = group_.own(context.batch.tokens);
    tokens.offsets = context.batch.tokens.offsets;
    return ops::pool_rows_backward(*settings_.pooling, {}, tokens, context.batch.lengths, saved.d_input, d_x,
                                   group_.begin(context.batch.tokens.count));
  }
  pooler_.backward_input(engine, group_.own(saved.d_dense), d_x, ops::Write::replace);
  if (!drops_input()) return;
  ops::dropout(context.dropout(settings_.input_dropout, settings_.site + 1), group_.own(context.batch.targets.rows),
               d_x, d_x);
}

void SequenceHead::backward_weight(Engine& engine, const SavedActivations& of_micro_batch, ConstMatrix x) const {
  const auto& saved = static_cast<const Saved&>(of_micro_batch);
  classifier_.backward_weight(engine, saved.logits, saved.features);
  if (settings_.norms_dense) {
    const NormGradient norm = {
        saved.d_features, saved.activated, norm_->mean(saved.statistics), norm_->rstd(saved.statistics),
        norm_->d_gamma(), norm_->d_beta()};
    add_norm_gradients({}, {&norm, 1});  // every rank of the group has all rows
  }
  pooler_.backward_weight(engine, saved.d_dense, input(saved, x, saved.d_dense.rows));
}

}  // namespace bert_hpc::layers
