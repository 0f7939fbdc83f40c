#include "vocabulary_head.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/gelu_tanh.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::layers {
namespace {

/// d_y becomes d_y ∘ activation'(pre).
void activate_backward(Activation activation, ConstMatrix pre, Matrix d_y) {
  switch (activation) {
    case Activation::gelu:
      return ops::gelu_backward(pre, d_y, d_y);
    case Activation::gelu_tanh:
      return ops::gelu_tanh_backward(pre, d_y, d_y);
    case Activation::silu:
      return ops::silu_backward(pre, d_y, d_y);
    default:
      throw core::Error(core::ExitCode::internal, "vocabulary head: an activation without a gradient");
  }
}

}  // namespace

void VocabularyHead::declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                             const TensorRank& tensor_rank) {
  if (!settings.bias.empty()) {
    declare_vector(specs, {.name = settings.bias,
                           .shape = {tensor_rank.share(settings.outputs)},
                           .shard = tensor_rank.rows(settings.outputs)});
  }
  if (!settings.dense.empty()) {
    specs.push_back({settings.dense + ".weight", {settings.decoded(), settings.hidden}});
    if (settings.dense_bias) declare_vector(specs, {.name = settings.dense + ".bias", .shape = {settings.decoded()}});
    declare_norm(specs, settings.norm, settings.decoded(), settings.norm_kind);
  }
  if (settings.declares_decoder) {
    specs.push_back({.name = settings.decoder,
                     .shape = {tensor_rank.share(settings.outputs), settings.decoded()},
                     .copy_of = settings.ties_word_embeddings ? settings.word_embeddings : "",
                     .shard = tensor_rank.rows(settings.outputs),
                     .zero_row = settings.ties_word_embeddings ? settings.padding_row : -1});
  }
}

VocabularyHead::VocabularyHead(const HeadSettings& settings, const core::ParameterStore& parameters,
                               const TensorGroup& group)
    : settings_(settings),
      group_(group),
      first_output_(group.tensor_rank().begin(settings.outputs)),
      outputs_(group.tensor_rank().share(settings.outputs)),
      decoder_(parameters, {.weight = settings.decoder, .bias = settings.bias, .in_encoder = false}) {
  if (settings.dense.empty()) return;
  const LinearSettings dense = {.weight = settings.dense + ".weight",
                                .bias = settings.dense_bias ? settings.dense + ".bias" : "",
                                .in_encoder = false};
  transform_ = {Linear(parameters, dense), NormParameters(parameters, settings.norm, settings.norm_kind)};
}

void VocabularyHead::allocate_saved(core::Workspace& workspace, const HeadBatch& rows,
                                    SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  saved = {};
  if (transform_) allocate_transform(workspace, rows.selected, saved);
  const std::int64_t stride = settings_.pads_logits ? ops::padded_columns(outputs_) : outputs_;
  saved.logits = workspace.take(rows.selected, stride, group_.shared() ? DataType::fp32 : settings_.logits)
                     .column_range(0, outputs_);
  if (group_.shared()) saved.shard_sums = workspace.take<float>(shard_sum_rows, rows.selected);
  saved.row_losses = workspace.take<float>(1, rows.selected);
}

void VocabularyHead::allocate_transform(core::Workspace& workspace, std::int64_t rows, Saved& saved) const {
  saved.dense = group_.take(workspace, rows, settings_.decoded(), settings_.storage);
  saved.activated = group_.take(workspace, rows, settings_.decoded(), settings_.storage);
  saved.features = group_.take(workspace, rows, settings_.decoded(), settings_.storage);
  saved.statistics = workspace.take<float>(2, group_.capacity(rows));
  saved.d_features = group_.take(workspace, rows, settings_.decoded(), settings_.storage);
  saved.d_dense = group_.take(workspace, rows, settings_.decoded(), settings_.storage);
}

std::vector<LinearWeight> VocabularyHead::linear_weights() const {
  std::vector<LinearWeight> weights;
  if (transform_) weights.push_back(transform_->dense.weight(true));
  weights.push_back(decoder_.weight(true));
  return weights;
}

void VocabularyHead::forward(Engine& engine, const StepContext& context, ConstMatrix x,
                             SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::TokenRows& rows = context.batch.targets.rows;
  if (transform_) {
    transform_->dense.forward(engine, x, settings_.activation, saved.dense, saved.activated);
    ops::residual_layer_norm_forward(context.dropout(0.0f, settings_.site), group_.own(rows), saved.activated, nullptr,
                                     {}, transform_->norm.gamma(), transform_->norm.beta(),
                                     settings_.layer_norm_epsilon, saved.features,
                                     transform_->norm.mean(saved.statistics), transform_->norm.rstd(saved.statistics));
  }
  decoder_.forward(engine, group_.gather(transform_ ? saved.features : x, rows.count), saved.logits);
}

std::optional<VocabularyShare> VocabularyHead::vocabulary_share(const SavedActivations& of_micro_batch) const {
  if (!group_.shared()) return std::nullopt;
  return VocabularyShare{group_, first_output_, settings_.outputs,
                         static_cast<const Saved&>(of_micro_batch).shard_sums};
}

void VocabularyHead::loss(const LossInput& in) {
  const std::int32_t* const ids = in.targets<core::ClassTargets>().data;
  if (in.share == nullptr) {
    return ops::cross_entropy(in.outputs, ids, in.scale, in.row_losses, in.training ? in.outputs : Matrix());
  }
  const auto& [group, first_output, all_outputs, sums] = *in.share;
  const Tensor<float> largest = sums.row_range(0, 1), totals = sums.row_range(1, 2);
  ops::class_shard_maxima(in.logits(), largest.data);
  group.all_reduce({largest.data, static_cast<std::size_t>(largest.size())}, comm::Reduction::maximum);
  ops::class_shard_totals(in.logits(), first_output, ids, largest.data, totals, in.d_logits());
  group.all_reduce({totals.data, static_cast<std::size_t>(totals.size())}, comm::Reduction::sum);
  ops::class_shard_cross_entropy(first_output, ids, in.scale, totals, in.row_losses, in.d_logits());
}

void VocabularyHead::predict(SavedActivations& of_micro_batch, std::int32_t* predicted) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  if (!group_.shared()) return ops::arg_max(saved.logits, predicted);
  const Tensor<float> logits = saved.logits.as<float>();
  const Tensor<float> largest = saved.shard_sums.row_range(0, 1), index = saved.shard_sums.row_range(1, 1);
  ops::class_shard_maxima(logits, largest.data);
  group_.all_reduce({largest.data, static_cast<std::size_t>(largest.size())}, comm::Reduction::maximum);
  ops::class_shard_arg_max(logits, first_output_, largest.data, index.data);
  group_.all_reduce({index.data, static_cast<std::size_t>(index.size())}, comm::Reduction::minimum);
  ops::to_integers(index.data, index.size(), predicted);
}

void VocabularyHead::backward_input(Engine& engine, const StepContext& context, SavedActivations& of_micro_batch,
                                    Matrix d_x) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::TokenRows& rows = context.batch.targets.rows;
  const Matrix d_features = transform_ ? saved.d_features : d_x, sum = group_.partial(d_features, rows.count);
  decoder_.backward_input(engine, saved.logits, sum, ops::Write::replace);
  group_.sum(sum, d_features);
  if (!transform_) return;
  ops::residual_layer_norm_backward(context.dropout(0.0f, settings_.site), group_.own(rows), d_features,
                                    saved.activated, transform_->norm.gamma(), transform_->norm.mean(saved.statistics),
                                    transform_->norm.rstd(saved.statistics), saved.d_dense, {});
  activate_backward(settings_.activation, saved.dense, saved.d_dense);
  transform_->dense.backward_input(engine, saved.d_dense, d_x, ops::Write::replace);
}

void VocabularyHead::backward_weight(Engine& engine, const SavedActivations& of_micro_batch, ConstMatrix x) const {
  const auto& saved = static_cast<const Saved&>(of_micro_batch);
  const std::int64_t rows = saved.logits.rows;
  decoder_.backward_weight(engine, saved.logits, group_.gather(transform_ ? saved.features : x, rows));
  if (!transform_) return;
  const NormGradient norm = {saved.d_features,
                             saved.activated,
                             transform_->norm.mean(saved.statistics),
                             transform_->norm.rstd(saved.statistics),
                             transform_->norm.d_gamma(),
                             transform_->norm.d_beta()};
  add_norm_gradients(group_, {&norm, 1});
  const ConstMatrix d_dense = group_.gather(saved.d_dense, rows), all = group_.gather(x, rows);
  transform_->dense.backward_weight(engine, d_dense, all);
}

}  // namespace bert_hpc::layers
