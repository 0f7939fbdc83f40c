#include "bert_hpc/train/hidden_loss.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/layers/linear.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::train {

HiddenLoss::HiddenLoss(const HiddenLossSettings& settings, const layers::TensorGroup& group, bool allocates)
    : settings_(settings), group_(group) {
  if (!allocates) return;
  kept_ = core::Buffer<std::byte>(bytes_of(settings.columns));
  copied_ = core::Buffer<std::byte>(bytes_of(settings.projected));
  projections_ = core::Buffer<std::byte>(projection_bytes());
  row_losses_ = core::Buffer<float>(capacity());
}

std::int64_t HiddenLoss::bytes_of(std::int64_t columns) const {
  return std::ssize(settings_.own) * settings_.micro_batches * capacity() * columns * core::bytes_of(settings_.storage);
}

std::int64_t HiddenLoss::projection_bytes() const {
  return settings_.projected > 0 ? capacity() * settings_.columns * core::bytes_of(settings_.storage) : 0;
}

std::int64_t HiddenLoss::bytes() const {
  return bytes_of(settings_.columns + settings_.projected) + projection_bytes() +
         capacity() * static_cast<std::int64_t>(sizeof(float));
}

core::Matrix HiddenLoss::at(const core::Buffer<std::byte>& memory, std::int64_t columns, std::size_t own,
                            const layers::StepContext& context, std::int64_t rows) const {
  core::require(rows <= capacity() && context.number < settings_.micro_batches, "hidden states: more than planned");
  const std::int64_t number = static_cast<std::int64_t>(own) * settings_.micro_batches + context.number;
  std::byte* const begin = memory.data() + number * capacity() * columns * core::bytes_of(settings_.storage);
  return {begin, rows, columns, columns, settings_.storage};
}

void HiddenLoss::Keeper::forward(const layers::StreamEdge& edge, const layers::StepContext& context,
                                 core::ConstMatrix state) {
  for (std::size_t i = 0; i < loss.settings_.own.size(); ++i) {
    const StatePair& pair = loss.settings_.pairs[loss.settings_.own[i]];
    if (pair.teacher == edge.number) ops::copy(state, loss.kept(i, context, state.rows));
  }
}

void HiddenLoss::forward(const layers::StreamEdge& edge, const layers::StepContext& context, core::ConstMatrix state) {
  for (std::size_t i = 0; i < settings_.own.size(); ++i) {
    const StatePair& pair = settings_.pairs[settings_.own[i]];
    if (pair.student != edge.number) continue;
    core::ConstMatrix compared = state;
    if (edge.projection != nullptr) {
      const core::Matrix projected(projections_.data(), state.rows, settings_.columns, settings_.columns,
                                   settings_.storage);
      edge.projection->forward(edge.engine, state, projected);
      ops::copy(state, copied(i, context, state.rows));
      compared = projected;
    }
    const auto weight = static_cast<float>(settings_.share * step_.targets / step_.tokens);
    ops::state_loss(pair.terms, weight, compared, group_.own(context.batch.tokens), context.batch.lengths,
                    kept(i, context, state.rows), row_losses_.data());
    double* const losses = step_.losses + static_cast<std::int64_t>(settings_.own[i]) * step_.micro_batches;
    ops::sum(row_losses_.data(), state.rows, losses + step_.position[static_cast<std::size_t>(context.number)]);
  }
}

void HiddenLoss::backward(const layers::StreamEdge& edge, const layers::StepContext& context, core::Matrix d_state) {
  for (std::size_t i = 0; i < settings_.own.size(); ++i) {
    if (settings_.pairs[settings_.own[i]].student != edge.number) continue;
    const auto columns = static_cast<double>(settings_.columns);
    const auto factor = static_cast<float>(settings_.share * step_.scale / (step_.tokens * columns));
    const core::Matrix gradient = kept(i, context, d_state.rows);
    if (edge.projection == nullptr) {
      ops::add_state_gradient(factor, gradient, d_state);
      continue;
    }
    ops::scale(factor, gradient);
    edge.projection->backward_input(edge.engine, core::ConstMatrix(gradient), d_state, ops::Write::accumulate);
    const std::int64_t tokens = context.batch.tokens.count;
    const core::ConstMatrix all = edge.group.gather(gradient, tokens);
    edge.projection->backward_weight(edge.engine, all, edge.group.gather(copied(i, context, d_state.rows), tokens));
  }
}

}  // namespace bert_hpc::train
