#include "bert_hpc/train/hidden_loss.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::train {

HiddenLoss::HiddenLoss(const HiddenLossSettings& settings, const layers::TensorGroup& group, bool allocates)
    : settings_(settings), group_(group) {
  if (!allocates) return;
  kept_ = core::Buffer<std::byte>(kept_bytes());
  row_losses_ = core::Buffer<float>(capacity());
}

std::int64_t HiddenLoss::kept_bytes() const {
  return std::ssize(settings_.own) * settings_.micro_batches * capacity() * settings_.columns *
         core::bytes_of(settings_.storage);
}

std::int64_t HiddenLoss::bytes() const {
  return kept_bytes() + capacity() * static_cast<std::int64_t>(sizeof(float));
}

core::Matrix HiddenLoss::kept(std::size_t own, const layers::StepContext& context, std::int64_t rows) const {
  core::require(rows <= capacity() && context.number < settings_.micro_batches, "hidden states: more than planned");
  const std::int64_t number = static_cast<std::int64_t>(own) * settings_.micro_batches + context.number;
  std::byte* const begin = kept_.data() + number * capacity() * settings_.columns * core::bytes_of(settings_.storage);
  return {begin, rows, settings_.columns, settings_.columns, settings_.storage};
}

void HiddenLoss::Keeper::forward(std::int64_t edge, const layers::StepContext& context, core::ConstMatrix state) {
  for (std::size_t i = 0; i < loss.settings_.own.size(); ++i) {
    if (loss.settings_.pairs[loss.settings_.own[i]].teacher == edge)
      ops::copy(state, loss.kept(i, context, state.rows));
  }
}

void HiddenLoss::forward(std::int64_t edge, const layers::StepContext& context, core::ConstMatrix state) {
  for (std::size_t i = 0; i < settings_.own.size(); ++i) {
    const StatePair& pair = settings_.pairs[settings_.own[i]];
    if (pair.student != edge) continue;
    const auto weight = static_cast<float>(settings_.share * step_.targets / step_.tokens);
    ops::state_loss(pair.terms, weight, state, group_.own(context.batch.tokens), context.batch.lengths,
                    kept(i, context, state.rows), row_losses_.data());
    double* const losses = step_.losses + static_cast<std::int64_t>(settings_.own[i]) * step_.micro_batches;
    ops::sum(row_losses_.data(), state.rows, losses + step_.position[static_cast<std::size_t>(context.number)]);
  }
}

void HiddenLoss::backward(std::int64_t edge, const layers::StepContext& context, core::Matrix d_state) {
  for (std::size_t i = 0; i < settings_.own.size(); ++i) {
    if (settings_.pairs[settings_.own[i]].student != edge) continue;
    const double columns = static_cast<double>(settings_.columns);
    const auto factor = static_cast<float>(settings_.share * step_.scale / (step_.tokens * columns));
    ops::add_state_gradient(factor, kept(i, context, d_state.rows), d_state);
  }
}

}  // namespace bert_hpc::train
