#include "masked_lm_head.hpp"

#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::layers {

void MaskedLmHead::declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                           const TensorRank& place) {
  declare_vector(
      specs, {.name = settings.bias, .shape = {place.share(settings.outputs)}, .shard = place.rows(settings.outputs)});
  specs.push_back({settings.dense + ".weight", {settings.hidden, settings.hidden}});
  declare_vector(specs, {.name = settings.dense + ".bias", .shape = {settings.hidden}});
  declare_norm(specs, settings.norm, settings.hidden);
  if (settings.declares_decoder) {
    specs.push_back({.name = settings.decoder,
                     .shape = {place.share(settings.outputs), settings.hidden},
                     .copy_of = settings.word_embeddings,
                     .shard = place.rows(settings.outputs),
                     .zero_row = settings.padding_row});
  }
}

MaskedLmHead::MaskedLmHead(const HeadSettings& settings, const core::ParameterStore& parameters,
                           const TensorGroup& group)
    : settings_(settings),
      parameters_(parameters),
      group_(group),
      first_output_(group.place().begin(settings.outputs)),
      outputs_(group.place().share(settings.outputs)),
      dense_(parameters, {.weight = settings.dense + ".weight", .bias = settings.dense + ".bias", .in_encoder = false}),
      decoder_(parameters, {.weight = settings.decoder, .bias = settings.bias, .in_encoder = false}),
      gamma_(parameters.find(settings.norm + ".weight")),
      beta_(parameters.find(settings.norm + ".bias")) {}

void MaskedLmHead::allocate_saved(core::Workspace& workspace, std::int64_t rows,
                                  SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  saved = {};
  saved.dense = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  saved.activated = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  saved.features = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  saved.statistics = workspace.take<float>(2, group_.capacity(rows));
  saved.d_features = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  saved.d_dense = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  const std::int64_t stride = settings_.pads_logits ? ops::padded_columns(outputs_) : outputs_;
  saved.logits =
      workspace.take(rows, stride, group_.shared() ? DataType::fp32 : settings_.logits).column_range(0, outputs_);
  if (group_.shared()) saved.shard_sums = workspace.take<float>(3, rows);
  saved.row_losses = workspace.take<float>(1, rows);
}

std::vector<LinearWeight> MaskedLmHead::linear_weights() const {
  return {dense_.weight(true), decoder_.weight(true)};
}

void MaskedLmHead::forward(Engine& engine, const StepContext& context, ConstMatrix x,
                           SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  dense_.forward(engine, x, settings_.activation, saved.dense, saved.activated);
  ops::residual_layer_norm_forward(context.dropout(0.0f, settings_.site), group_.own(context.batch.targets.rows),
                                   saved.activated, nullptr, {}, parameters_.value(gamma_).data,
                                   parameters_.value(beta_).data, settings_.layer_norm_epsilon, saved.features,
                                   saved.statistics.row(0), saved.statistics.row(1));
  decoder_.forward(engine, group_.gather(saved.features, context.batch.targets.rows.count), saved.logits);
}

std::optional<VocabularyShare> MaskedLmHead::vocabulary_share(const SavedActivations& of_micro_batch) const {
  if (!group_.shared()) return std::nullopt;
  return VocabularyShare{group_, first_output_, static_cast<const Saved&>(of_micro_batch).shard_sums};
}

void MaskedLmHead::loss(const LossInput& in) {
  const std::int32_t* const ids = in.targets<core::ClassTargets>().data;
  if (in.share == nullptr) {
    return ops::cross_entropy(in.outputs, ids, in.scale, in.row_losses, in.training ? in.outputs : Matrix());
  }
  const auto& [group, first_output, sums] = *in.share;
  const Tensor<float> largest = sums.row_range(0, 1), totals = sums.row_range(1, 2);
  ops::class_shard_maxima(in.logits(), largest.data);
  group.all_reduce({largest.data, static_cast<std::size_t>(largest.size())}, comm::Reduction::maximum);
  ops::class_shard_totals(in.logits(), first_output, ids, largest.data, totals, in.d_logits());
  group.all_reduce({totals.data, static_cast<std::size_t>(totals.size())}, comm::Reduction::sum);
  ops::class_shard_cross_entropy(first_output, ids, in.scale, totals, in.row_losses, in.d_logits());
}

void MaskedLmHead::predict(SavedActivations& of_micro_batch, std::int32_t* predicted) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  if (!group_.shared()) return ops::arg_max(saved.logits, predicted);
  const Tensor<float> logits = saved.logits.as<float>();
  const Tensor<float> largest = saved.shard_sums.row_range(0, 1), place = saved.shard_sums.row_range(1, 1);
  ops::class_shard_maxima(logits, largest.data);
  group_.all_reduce({largest.data, static_cast<std::size_t>(largest.size())}, comm::Reduction::maximum);
  ops::class_shard_arg_max(logits, first_output_, largest.data, place.data);
  group_.all_reduce({place.data, static_cast<std::size_t>(place.size())}, comm::Reduction::minimum);
  ops::to_integers(place.data, place.size(), predicted);
}

void MaskedLmHead::backward_input(Engine& engine, const StepContext& context, SavedActivations& of_micro_batch,
                                  Matrix d_x) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const Matrix sum = group_.partial(saved.d_features, context.batch.targets.rows.count);
  decoder_.backward_input(engine, saved.logits, sum, ops::Write::replace);
  group_.sum(sum, saved.d_features);
  ops::residual_layer_norm_backward(context.dropout(0.0f, settings_.site), group_.own(context.batch.targets.rows),
                                    saved.d_features, saved.activated, parameters_.value(gamma_).data,
                                    saved.statistics.row(0), saved.statistics.row(1), saved.d_dense, {});
  ops::gelu_backward(saved.dense, saved.d_dense, saved.d_dense);
  dense_.backward_input(engine, saved.d_dense, d_x, ops::Write::replace);
}

void MaskedLmHead::backward_weight(Engine& engine, const SavedActivations& of_micro_batch, ConstMatrix x) const {
  const auto& saved = static_cast<const Saved&>(of_micro_batch);
  const std::int64_t rows = saved.logits.rows;
  decoder_.backward_weight(engine, saved.logits, group_.gather(saved.features, rows));
  const NormGradient norm = {saved.d_features,
                             saved.activated,
                             saved.statistics.row(0),
                             saved.statistics.row(1),
                             parameters_.gradient(gamma_).data,
                             parameters_.gradient(beta_).data};
  add_norm_gradients(group_, {&norm, 1});
  const ConstMatrix d_dense = group_.gather(saved.d_dense, rows), all = group_.gather(x, rows);
  dense_.backward_weight(engine, d_dense, all);
}

}  // namespace bert_hpc::layers
