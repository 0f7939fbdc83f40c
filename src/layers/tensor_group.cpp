#include "bert_hpc/layers/tensor_group.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "bert_hpc/ops/random_fill.hpp"

namespace bert_hpc::layers {
namespace {

constexpr std::int64_t most_norms = 2;  // at once: their gradients lie where partial sums do

std::int64_t elements(std::int64_t rows, std::int64_t columns, int ranks) {
  const std::int64_t piece = (std::max(rows, 2 * most_norms) + ranks - 1) / ranks;
  return piece * ranks * columns;
}

template <class T>
std::span<T> span_of(Tensor<T> x, std::int64_t rows) {
  return {x.data, static_cast<std::size_t>(rows * x.columns)};
}

}  // namespace

std::int64_t TensorExchange::bytes(std::int64_t rows, std::int64_t columns, int ranks) {
  return ranks == 1 ? 0 : 4 * elements(rows, columns, ranks) * static_cast<std::int64_t>(sizeof(float));
}

void TensorExchange::connect(comm::Communicator& group, std::int64_t rows, std::int64_t columns) {
  group_ = &group;
  if (group.size() == 1) return;
  const auto count = static_cast<std::size_t>(elements(rows, columns, group.size()));
  const auto allocate = [&](comm::Sharing sharing) {
    const std::span<std::byte> memory = group.allocate(count * sizeof(float), sharing);
    return std::span<float>(reinterpret_cast<float*>(memory.data()), count);
  };
  for (std::span<float>& each : gathered_) each = allocate(comm::Sharing::replicated);
  partial_ = allocate(comm::Sharing::exposed);
}

Tensor<float> TensorGroup::take(core::Workspace& workspace, std::int64_t rows, std::int64_t columns) const {
  Tensor<float> piece = workspace.take<float>(capacity(rows), columns);
  piece.rows = count(rows);
  return piece;
}

core::TokenRows TensorGroup::own(const core::TokenRows& all) const {
  if (!shared()) return all;
  const std::int64_t first = begin(all.count);
  return {count(all.count), nullptr, all.sequence + first, all.position + first};
}

Tensor<const float> TensorGroup::gather(Tensor<const float> piece, std::int64_t rows) const {
  if (!shared()) return piece;
  std::span<float>& buffer = exchange_->gathered_[exchange_->turn_];
  exchange_->turn_ = (exchange_->turn_ + 1) % 3;
  const std::int64_t padded = capacity(rows) * place_.size;
  const Tensor<float> all(buffer.data(), rows, piece.columns);
  core::require(padded * piece.columns <= static_cast<std::int64_t>(buffer.size()),
                "tensor parallelism: more rows than memory was reserved for");
  ops::copy(piece, own(all));
  if (rows > 0) exchange_->group_->start_all_gather(span_of(all, padded))->wait();
  return all;
}

Tensor<float> TensorGroup::partial(Tensor<float> piece, std::int64_t rows) const {
  if (!shared()) return piece;
  core::require(capacity(rows) * place_.size * piece.columns <= static_cast<std::int64_t>(exchange_->partial_.size()),
                "tensor parallelism: more rows than memory was reserved for");
  return {exchange_->partial_.data(), rows, piece.columns};
}

void TensorGroup::keep_own(Tensor<float> all) const {
  if (!shared()) return;
  const std::int64_t first = begin(all.rows), end = first + count(all.rows);
  ops::fill(span_of(all, first), 0.0f);
  ops::fill(span_of(all.row_range(end, 0), all.rows - end), 0.0f);
}

void TensorGroup::sum(Tensor<const float> all, Tensor<float> piece) const {
  if (!shared() || all.rows == 0) return;
  const std::int64_t room = capacity(all.rows);
  exchange_->group_->start_reduce_scatter(span_of(all, room * place_.size), span_of(piece, room))->wait();
}

void TensorGroup::all_reduce(std::span<float> values, comm::Reduction reduction) const {
  if (shared() && !values.empty()) exchange_->group_->all_reduce(values, reduction);
}

void add_norm_gradients(const TensorGroup& group, std::span<const NormGradient> norms) {
  if (!group.shared()) {
    for (const NormGradient& n : norms) {
      ops::layer_norm_backward_weight(n.d_y, n.z, n.mean, n.rstd, n.d_gamma, n.d_beta, ops::Write::accumulate);
    }
    return;
  }
  core::require(static_cast<std::int64_t>(norms.size()) <= most_norms, "tensor parallelism: too many norms at once");
  const std::int64_t columns = norms[0].z.columns, count = 2 * static_cast<std::int64_t>(norms.size());
  const Tensor<float> sums = group.partial({nullptr, 0, columns}, count);  // (2 · norms, hidden)
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const NormGradient& n = norms[i];
    const std::int64_t row = 2 * static_cast<std::int64_t>(i);
    ops::layer_norm_backward_weight(n.d_y, n.z, n.mean, n.rstd, sums.row(row), sums.row(row + 1), ops::Write::replace);
  }
  group.all_reduce(span_of(sums, count), comm::Reduction::sum);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const std::int64_t row = 2 * static_cast<std::int64_t>(i);
    ops::add(sums.row_range(row, 1), {norms[i].d_gamma, 1, columns});
    ops::add(sums.row_range(row + 1, 1), {norms[i].d_beta, 1, columns});
  }
}

}  // namespace bert_hpc::layers
