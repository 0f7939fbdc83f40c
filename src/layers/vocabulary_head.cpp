#include "vocabulary_head.hpp"

#include "bert_hpc/core/device_memory.hpp"
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
  saved.in_parts = needs_parts(rows.selected) && !rows.stores_logits;
  if (transform_) allocate_transform(workspace, rows.selected, saved);
  const std::int64_t stride = settings_.pads_logits ? ops::padded_columns(outputs_) : outputs_;
  const std::int64_t logit_rows = saved.in_parts ? settings_.rows_at_once : rows.selected;
  saved.logits =
      workspace.take(logit_rows, stride, group_.shared() ? DataType::fp32 : settings_.logits).column_range(0, outputs_);
  if (group_.shared()) saved.shard_sums = workspace.take<float>(shard_sum_rows, logit_rows);
  if (saved.in_parts) saved.predicted = workspace.take<std::int32_t>(1, rows.selected);
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

template <class Visit>
void VocabularyHead::for_parts(std::int64_t rows, const Visit& visit) const {
  const std::int64_t parts = needs_parts(rows) ? (rows + settings_.rows_at_once - 1) / settings_.rows_at_once : 1;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t begin = rows * i / parts;
    visit(begin, rows * (i + 1) / parts - begin);
  }
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
  saved.x = x;
  if (saved.in_parts && context.keeps_activations()) return;  // backward_input() computes the logits
  const ConstMatrix all = features(saved, x, rows.count);
  if (saved.in_parts) return evaluate_parts(engine, context, all, saved);
  decoder_.forward(engine, all, saved.logits);
}

void VocabularyHead::evaluate_parts(Engine& engine, const StepContext& context, ConstMatrix features,
                                    Saved& saved) const {
  const std::int32_t* const ids = context.batch.targets.get<core::ClassTargets>().data;
  core::require(ids != nullptr, "vocabulary head: rows in parts need targets");
  for_parts(features.rows, [&](std::int64_t begin, std::int64_t count) {
    const Matrix logits = saved.logits.row_range(0, count);
    const std::optional<VocabularyShare> share = share_of(saved, count);
    decoder_.forward(engine, features.row_range(begin, count), logits);
    predict(logits, share, saved.predicted.data + begin);
    token_loss(logits, ids + begin, 1.0f, false, share, saved.row_losses.data + begin);
  });
}

void VocabularyHead::train_parts(Engine& engine, const StepContext& context, ConstMatrix features, Saved& saved,
                                 Matrix d_features) const {
  const std::int32_t* const ids = context.batch.targets.get<core::ClassTargets>().data;
  for_parts(features.rows, [&](std::int64_t begin, std::int64_t count) {
    const Matrix logits = saved.logits.row_range(0, count);
    const ConstMatrix rows = features.row_range(begin, count);
    decoder_.forward(engine, rows, logits);
    token_loss(logits, ids + begin, saved.scale, true, share_of(saved, count), saved.row_losses.data + begin);
    decoder_.backward_input(engine, logits, d_features.row_range(begin, count), ops::Write::replace);
    decoder_.backward_weight(engine, logits, rows);
  });
}

std::optional<VocabularyShare> VocabularyHead::vocabulary_share(const SavedActivations& of_micro_batch) const {
  return share_of(static_cast<const Saved&>(of_micro_batch), of_micro_batch.logits.rows);
}

std::optional<VocabularyShare> VocabularyHead::share_of(const Saved& saved, std::int64_t rows) const {
  if (!group_.shared()) return std::nullopt;
  return VocabularyShare{group_, first_output_, settings_.outputs,
                         Tensor<float>(saved.shard_sums.data, shard_sum_rows, rows)};
}

void VocabularyHead::loss(const LossInput& in) {
  if (in.in_parts) return;  // the head computes each part's loss
  const std::optional<VocabularyShare> share = in.share != nullptr ? std::optional(*in.share) : std::nullopt;
  token_loss(in.outputs, in.targets<core::ClassTargets>().data, in.scale, in.training, share, in.row_losses);
}

void VocabularyHead::token_loss(Matrix logits, const std::int32_t* ids, float scale, bool training,
                                const std::optional<VocabularyShare>& share, float* row_losses) {
  if (!share) return ops::cross_entropy(logits, ids, scale, row_losses, training ? logits : Matrix());
  const auto& [group, first_output, all_outputs, sums] = *share;
  const Tensor<float> here = logits.as<float>(), d_here = training ? here : Tensor<float>();
  const Tensor<float> largest = sums.row_range(0, 1), totals = sums.row_range(1, 2);
  ops::class_shard_maxima(here, largest.data);
  group.all_reduce(largest, comm::Reduction::maximum);
  ops::class_shard_totals(here, first_output, ids, largest.data, totals, d_here);
  group.all_reduce(totals, comm::Reduction::sum);
  ops::class_shard_cross_entropy(first_output, ids, scale, totals, row_losses, d_here);
}

void VocabularyHead::predict(SavedActivations& of_micro_batch, std::int32_t* predicted) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  if (!saved.in_parts) return predict(saved.logits, share_of(saved, saved.logits.rows), predicted);
  core::copy_on_device(saved.predicted.data, predicted,
                       static_cast<std::size_t>(saved.predicted.columns) * sizeof(std::int32_t));
}

void VocabularyHead::predict(Matrix logits, const std::optional<VocabularyShare>& share,
                             std::int32_t* predicted) const {
  if (!share) return ops::arg_max(logits, predicted);
  const Tensor<float> here = logits.as<float>();
  const Tensor<float> largest = share->sums.row_range(0, 1), index = share->sums.row_range(1, 1);
  ops::class_shard_maxima(here, largest.data);
  group_.all_reduce(largest, comm::Reduction::maximum);
  ops::class_shard_arg_max(here, first_output_, largest.data, index.data);
  group_.all_reduce(index, comm::Reduction::minimum);
  ops::to_integers(index.data, index.size(), predicted);
}

void VocabularyHead::backward_input(Engine& engine, const StepContext& context, SavedActivations& of_micro_batch,
                                    Matrix d_x) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::TokenRows& rows = context.batch.targets.rows;
  const Matrix d_features = transform_ ? saved.d_features : d_x, sum = group_.partial(d_features, rows.count);
  if (saved.in_parts) {
    train_parts(engine, context, features(saved, saved.x, rows.count), saved, sum);
  } else {
    decoder_.backward_input(engine, saved.logits, sum, ops::Write::replace);
  }
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
  const std::int64_t rows = saved.row_losses.columns;
  if (!saved.in_parts) {
    const ConstMatrix all = features(saved, x, rows);
    for_parts(rows, [&](std::int64_t begin, std::int64_t count) {
      decoder_.backward_weight(engine, saved.logits.row_range(begin, count), all.row_range(begin, count));
    });
  }
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
