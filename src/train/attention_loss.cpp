#include "bert_hpc/train/attention_loss.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/tensor.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::train {

AttentionLoss::AttentionLoss(const AttentionLossSettings& settings, bool allocates) : settings_(settings) {
  if (!allocates) return;
  kept_ = core::Buffer<std::byte>(kept_bytes());
  row_losses_ = core::Buffer<float>(settings.heads * settings.rows);
}

std::int64_t AttentionLoss::kept_bytes() const {
  return std::ssize(settings_.own) * settings_.micro_batches * settings_.rows * 2 * settings_.columns *
         core::bytes_of(settings_.storage);
}

std::int64_t AttentionLoss::bytes() const {
  return kept_bytes() + settings_.heads * settings_.rows * static_cast<std::int64_t>(sizeof(float));
}

core::Matrix AttentionLoss::kept(std::size_t own, const layers::StepContext& context, std::int64_t rows) const {
  core::require(rows <= settings_.rows && context.number < settings_.micro_batches, "attention: more than planned");
  const std::int64_t number = static_cast<std::int64_t>(own) * settings_.micro_batches + context.number;
  const std::int64_t columns = 2 * settings_.columns;
  std::byte* const begin = kept_.data() + number * settings_.rows * columns * core::bytes_of(settings_.storage);
  return {begin, rows, columns, columns, settings_.storage};
}

ops::ScorePair AttentionLoss::scores(std::size_t own, const layers::ObservedAttention& attention,
                                     const layers::StepContext& context) const {
  const core::ConstMatrix teacher = kept(own, context, attention.inputs.q.rows);
  return {attention.inputs, teacher.column_range(0, settings_.columns),
          teacher.column_range(settings_.columns, settings_.columns)};
}

void AttentionLoss::Keeper::forward(const layers::ObservedAttention& attention, const layers::StepContext& context) {
  const core::ConstMatrix &q = attention.inputs.q, &k = attention.inputs.k;
  for (std::size_t i = 0; i < loss.settings_.own.size(); ++i) {
    if (loss.settings_.pairs[loss.settings_.own[i]].teacher != attention.block) continue;
    const core::Matrix both = loss.kept(i, context, k.rows);
    core::require(q.rows == k.rows, "attention: the teacher has queries of some tokens alone");
    ops::copy(q, both.column_range(0, q.columns));
    ops::copy(k, both.column_range(q.columns, k.columns));
  }
}

void AttentionLoss::forward(const layers::ObservedAttention& attention, const layers::StepContext& context) {
  for (std::size_t i = 0; i < settings_.own.size(); ++i) {
    if (settings_.pairs[settings_.own[i]].student != attention.block) continue;
    const double heads = static_cast<double>(attention.all_heads);
    const auto weight = static_cast<float>(settings_.share * step_.targets / (step_.tokens * heads));
    const core::Tensor<float> losses(row_losses_.data(), attention.inputs.extents.heads, attention.inputs.q.rows);
    ops::score_loss(scores(i, attention, context), weight, losses);
    double* const sums = step_.losses + static_cast<std::int64_t>(settings_.own[i]) * step_.micro_batches;
    ops::sum(losses.data, losses.size(), sums + step_.position[static_cast<std::size_t>(context.number)]);
  }
}

void AttentionLoss::backward(const layers::ObservedAttention& attention, const layers::StepContext& context,
                             const core::Matrix& d_q, const core::Matrix& d_k) {
  for (std::size_t i = 0; i < settings_.own.size(); ++i) {
    if (settings_.pairs[settings_.own[i]].student != attention.block) continue;
    const double heads = static_cast<double>(attention.all_heads);
    const auto factor = static_cast<float>(settings_.share * step_.scale / (step_.tokens * heads));
    ops::add_score_gradient(scores(i, attention, context), factor, d_q, d_k);
  }
}

}  // namespace bert_hpc::train
