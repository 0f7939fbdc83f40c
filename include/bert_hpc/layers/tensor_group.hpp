// Tensor parallelism with split token rows: the ranks of a group share out every block's heads and feed-forward columns
// (Shoeybi et al., "Megatron-LM: training multi-billion parameter language models using model parallelism", 2019), and
// between the products each of them computes layer norms, dropout and residuals of a piece of the token rows only
// (Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022). Before a product the
// pieces are gathered, after it each rank's partial sums are added up and scattered.
//
// Layers are written for a TensorGroup; in a group of one every function gives back what it was given, so that a model
// on one rank computes what it would without all this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/core/shard.hpp"
#include "bert_hpc/core/workspace.hpp"

namespace bert_hpc::layers {

using core::ConstMatrix;
using core::DataType;
using core::Matrix;
using core::Tensor;

/// Rank of a process among those that share out each layer, and its share. Arithmetic only.
struct TensorRank {
  int rank = 0, size = 1;

  /// This rank holds [begin(n), begin(n) + share(n)) of n rows or columns of a parameter: shares differ by one at most.
  std::int64_t begin(std::int64_t n) const { return n * rank / size; }
  std::int64_t share(std::int64_t n) const { return n * (rank + 1) / size - begin(n); }
  core::Shard rows(std::int64_t n) const { return size == 1 ? core::Shard() : core::Shard{0, begin(n), n}; }
  core::Shard columns(std::int64_t n) const { return size == 1 ? core::Shard() : core::Shard{1, begin(n), n}; }
};

/// The memory through which a group exchanges token rows. For one thread.
class TensorExchange {
 public:
  /// Collective over the group, which must outlive it; once, before any pass: for matrices of up to (rows, columns), an
  /// even number of columns where `type` has 16 bits.
  void connect(comm::Communicator& group, std::int64_t rows, std::int64_t columns, DataType type = DataType::fp32);
  /// What connect() takes on each rank of `ranks`.
  static std::int64_t bytes(std::int64_t rows, std::int64_t columns, int ranks, DataType type = DataType::fp32);

 private:
  friend class TensorGroup;
  comm::Communicator* group_ = nullptr;
  /// Gathering takes turns between three, as ranks may share this memory: one is filled again two gatherings after it
  /// was read, when no rank can still be reading it, even if two of them were read together.
  std::span<std::byte> gathered_[3];
  std::span<float> partial_;
  core::Buffer<float> summed_;  // this rank's piece, on its way to 16 bits
  int turn_ = 0;
};

class TensorGroup {
 public:
  /// A group of one.
  TensorGroup() = default;
  /// `exchange` must outlive the group and all its copies. Planning does not need it connected.
  TensorGroup(const TensorRank& tensor_rank, TensorExchange& exchange)
      : tensor_rank_(tensor_rank), exchange_(&exchange) {}

  const TensorRank& tensor_rank() const { return tensor_rank_; }
  bool shared() const { return tensor_rank_.size > 1; }

  // This rank has the piece [begin, begin + count) of `rows` token rows; all pieces have room for `capacity` rows.
  std::int64_t capacity(std::int64_t rows) const { return (rows + tensor_rank_.size - 1) / tensor_rank_.size; }
  std::int64_t begin(std::int64_t rows) const { return std::min(rows, capacity(rows) * tensor_rank_.rank); }
  std::int64_t count(std::int64_t rows) const { return std::min(rows - begin(rows), capacity(rows)); }

  /// Memory for this rank's piece of a matrix (rows, columns).
  Matrix take(core::Workspace& workspace, std::int64_t rows, std::int64_t columns, DataType type) const;
  /// What take() has given for more rows, as the piece of the first `rows`.
  Matrix first(Matrix piece, std::int64_t rows) const {
    piece.rows = count(rows);
    return piece;
  }
  /// This rank's piece of all rows.
  template <class Address>
  core::BasicMatrix<Address> own(const core::BasicMatrix<Address>& all) const {
    return shared() ? all.row_range(begin(all.rows), count(all.rows)) : all;
  }
  /// Sequences and positions of this rank's rows, without offsets.
  core::TokenRows own(const core::TokenRows& all) const;

  /// Collective. All `rows` rows of what the ranks have pieces of; valid until the next gather but one.
  ConstMatrix gather(const ConstMatrix& piece, std::int64_t rows) const;

  /// Input of sum(), which adds it up over the ranks into `piece`, a matrix of take(): (rows, columns). Only one
  /// is in use at a time. In a group of one it is `piece`; otherwise its elements are partial_type(), always float.
  Matrix partial(const Matrix& piece, std::int64_t rows) const;
  DataType partial_type(DataType type) const { return shared() ? DataType::fp32 : type; }
  /// Zeroes the other ranks' rows of what partial() gave.
  void keep_own(const Matrix& all) const;
  /// Collective. `all` is what partial() gave; sums are rounded, if at all, when they are complete.
  void sum(const Matrix& all, const Matrix& piece) const;

  /// Collective; in place.
  void all_reduce(std::span<float> values, comm::Reduction reduction) const;
  void all_reduce(const Tensor<float>& x, comm::Reduction reduction) const {
    all_reduce(std::span<float>(x.data, static_cast<std::size_t>(x.size())), reduction);
  }

 private:
  TensorRank tensor_rank_;
  TensorExchange* exchange_ = nullptr;
};

/// A layer norm's part in a backward pass; see ops::layer_norm_backward_weight. d_y and z are this rank's rows.
struct NormGradient {
  ConstMatrix d_y, z;  // (rows, hidden)
  const float *mean = nullptr, *rstd = nullptr;
  float *d_gamma = nullptr, *d_beta = nullptr;  // null: frozen
};

/// Collective. Adds the gradients of at most two layer norms, summed over the rows of all ranks: the same on each.
void add_norm_gradients(const TensorGroup& group, std::span<const NormGradient> norms);

}  // namespace bert_hpc::layers
