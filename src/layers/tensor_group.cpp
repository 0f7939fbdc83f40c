#include "bert_hpc/layers/tensor_group.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "bert_hpc/ops/random_fill.hpp"

namespace bert_hpc::layers {
namespace {

constexpr std::int64_t max_norms = 2;  // at once: their gradients lie where partial sums do

std::int64_t elements(std::int64_t rows, std::int64_t columns, int ranks) {
  const std::int64_t piece = (std::max(rows, 2 * max_norms) + ranks - 1) / ranks;
  return piece * ranks * columns;
}

std::span<float> span_of(Tensor<float> x, std::int64_t rows) {
  return {x.data, static_cast<std::size_t>(rows * x.columns)};
}

}  // namespace

std::int64_t TensorExchange::bytes(std::int64_t rows, std::int64_t columns, int ranks, DataType type) {
  if (ranks == 1) return 0;
  constexpr std::int64_t of_float = core::bytes_of(DataType::fp32);
  const std::int64_t all = elements(rows, columns, ranks);
  return all * (3 * core::bytes_of(type) + of_float) + (type == DataType::fp32 ? 0 : all / ranks * of_float);
}

void TensorExchange::connect(comm::Communicator& group, std::int64_t rows, std::int64_t columns, DataType type) {
  group_ = &group;
  if (group.size() == 1) return;
  core::require(type == DataType::fp32 || columns % 2 == 0, "tensor parallelism: rows in 16 bits of odd length");
  const std::int64_t all = elements(rows, columns, group.size());
  const auto count = static_cast<std::size_t>(all);
  const auto width = static_cast<std::size_t>(core::bytes_of(type));
  for (std::span<std::byte>& each : gathered_) each = group.allocate(count * width, comm::Sharing::replicated);
  partial_ = {reinterpret_cast<float*>(group.allocate(count * sizeof(float), comm::Sharing::exposed).data()), count};
  if (type != DataType::fp32) summed_ = core::Buffer<float>(all / group.size());
}

Matrix TensorGroup::take(core::Workspace& workspace, std::int64_t rows, std::int64_t columns, DataType type) const {
  Matrix piece = workspace.take(capacity(rows), columns, type);
  piece.rows = count(rows);
  return piece;
}

core::TokenRows TensorGroup::own(const core::TokenRows& all) const {
  if (!shared()) return all;
  const std::int64_t first = begin(all.count);
  return {count(all.count), nullptr, all.sequence + first, all.position + first};
}

ConstMatrix TensorGroup::gather(const ConstMatrix& piece, std::int64_t rows) const {
  if (!shared()) return piece;
  const std::span<std::byte> buffer = exchange_->gathered_[exchange_->turn_];
  exchange_->turn_ = (exchange_->turn_ + 1) % 3;
  const std::int64_t padded = capacity(rows) * tensor_rank_.size;
  const Matrix all(buffer.data(), rows, piece.columns, piece.columns, piece.type);
  const std::int64_t bytes = padded * piece.columns * core::bytes_of(piece.type);
  core::require(bytes <= static_cast<std::int64_t>(buffer.size()),
                "tensor parallelism: more rows than memory was reserved for");
  ops::copy(piece, own(all));
  // As floats, whatever they hold: they are moved as they are.
  const std::span<float> moved(reinterpret_cast<float*>(buffer.data()),
                               static_cast<std::size_t>(bytes) / sizeof(float));
  if (rows > 0) exchange_->group_->start_all_gather(moved)->wait();
  return all;
}

Matrix TensorGroup::partial(const Matrix& piece, std::int64_t rows) const {
  if (!shared()) return piece;
  core::require(
      capacity(rows) * tensor_rank_.size * piece.columns <= static_cast<std::int64_t>(exchange_->partial_.size()),
      "tensor parallelism: more rows than memory was reserved for");
  return Tensor<float>(exchange_->partial_.data(), rows, piece.columns);
}

void TensorGroup::keep_own(const Matrix& matrix) const {
  if (!shared()) return;
  const Tensor<float> all = matrix.as<float>();
  const std::int64_t first = begin(all.rows), end = first + count(all.rows);
  ops::fill(span_of(all, first), 0.0f);
  ops::fill(span_of(all.row_range(end, 0), all.rows - end), 0.0f);
}

void TensorGroup::sum(const Matrix& all, const Matrix& piece) const {
  if (!shared() || all.rows == 0) return;
  const std::int64_t room = capacity(all.rows);
  const bool narrows = piece.type != DataType::fp32;
  const Tensor<float> total =
      narrows ? Tensor<float>(exchange_->summed_.data(), piece.rows, piece.columns) : piece.as<float>();
  exchange_->group_->start_reduce_scatter(span_of(all.as<float>(), room * tensor_rank_.size), span_of(total, room))
      ->wait();
  if (narrows) ops::copy(total, piece);
}

void TensorGroup::all_reduce(std::span<float> values, comm::Reduction reduction) const {
  if (shared() && !values.empty()) exchange_->group_->all_reduce(values, reduction);
}

void add_norm_gradients(const TensorGroup& group, std::span<const NormGradient> norms) {
  if (!group.shared()) {
    for (const NormGradient& n : norms) {
      if (n.d_gamma == nullptr && n.d_beta == nullptr) continue;
      ops::layer_norm_backward_weight(n.d_y, n.z, n.mean, n.rstd, n.d_gamma, n.d_beta, ops::Write::accumulate);
    }
    return;
  }
  core::require(static_cast<std::int64_t>(norms.size()) <= max_norms, "tensor parallelism: too many norms at once");
  const std::int64_t columns = norms[0].z.columns, count = 2 * static_cast<std::int64_t>(norms.size());
  const Tensor<float> sums =
      group.partial(Tensor<float>(nullptr, 0, columns), count).as<float>();  // (2 · norms, hidden)
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const NormGradient& n = norms[i];
    const std::int64_t row = 2 * static_cast<std::int64_t>(i);
    ops::layer_norm_backward_weight(n.d_y, n.z, n.mean, n.rstd, sums.row(row), sums.row(row + 1), ops::Write::replace);
  }
  group.all_reduce(span_of(sums, count), comm::Reduction::sum);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const std::int64_t row = 2 * static_cast<std::int64_t>(i);
    const NormGradient& n = norms[i];
    if (n.d_gamma != nullptr) ops::add(sums.row_range(row, 1), Tensor<float>(n.d_gamma, 1, columns));
    if (n.d_beta != nullptr) ops::add(sums.row_range(row + 1, 1), Tensor<float>(n.d_beta, 1, columns));
  }
}

}  // namespace bert_hpc::layers
