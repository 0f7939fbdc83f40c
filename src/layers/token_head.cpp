#include "token_head.hpp"

#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::layers {

void TokenHead::declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs, const TensorRank&) {
  specs.push_back({settings.classifier + ".weight", {settings.outputs, settings.hidden}});
  if (!settings.classifier_bias) return;
  declare_vector(specs, {.name = settings.classifier + ".bias", .shape = {settings.outputs}});
}

TokenHead::TokenHead(const HeadSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group)
    : settings_(settings),
      group_(group),
      classifier_(parameters, {.weight = settings.classifier + ".weight",
                               .bias = settings.classifier_bias ? settings.classifier + ".bias" : "",
                               .in_encoder = false}) {}

void TokenHead::allocate_saved(core::Workspace& workspace, const HeadBatch& rows,
                               SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  saved = {};
  if (drops()) saved.features = workspace.take(rows.selected, settings_.hidden, settings_.storage);
  saved.logits = workspace.take<float>(rows.selected, settings_.outputs);
  saved.row_losses = workspace.take<float>(1, rows.selected);
}

void TokenHead::forward(Engine& engine, const StepContext& context, ConstMatrix x,
                        SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::TokenRows& rows = context.batch.targets.rows;
  const ConstMatrix all = group_.gather(x, rows.count);
  if (drops()) ops::dropout(context.dropout(settings_.classifier_dropout, settings_.site), rows, all, saved.features);
  classifier_.forward(engine, drops() ? ConstMatrix(saved.features) : all, saved.logits);
}

void TokenHead::predict(SavedActivations& saved, std::int32_t* predicted) const {
  ops::arg_max(saved.logits, predicted);
}

void TokenHead::backward_input(Engine& engine, const StepContext& context, SavedActivations& saved, Matrix d_x) const {
  classifier_.backward_input(engine, group_.own(saved.logits), d_x, ops::Write::replace);
  if (!drops()) return;
  ops::dropout(context.dropout(settings_.classifier_dropout, settings_.site), group_.own(context.batch.targets.rows),
               d_x, d_x);
}

void TokenHead::backward_weight(Engine& engine, const SavedActivations& of_micro_batch, ConstMatrix x) const {
  const auto& saved = static_cast<const Saved&>(of_micro_batch);
  classifier_.backward_weight(engine, saved.logits,
                              drops() ? ConstMatrix(saved.features) : group_.gather(x, saved.logits.rows));
}

}  // namespace bert_hpc::layers
