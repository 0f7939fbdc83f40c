// Sums over whole tensors that an update needs (ops/update_rule.hpp), where ranks hold parts of tensors. A tensor is
// summed in blocks of ops::norm_block elements, counted from the begin of the joined parameters that it belongs to: no
// rank's part of the arena begins within one. In reproducible mode every block of the whole model has its element of
// one vector, which its only owner fills; one all-reduce completes it (adding zeros is exact), and all ranks add it up
// in the same order. Otherwise a rank adds up its own blocks, and two numbers a tensor are reduced.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/parameter_store.hpp"

namespace bert_hpc::train {

/// Maps each slice of this rank to a tensor of the whole model, so that ranks can add up its squares.
struct TensorNormScope {
  struct Slice {
    std::int64_t tensor = 0;       ///< of the whole model's; a copy's is that of its original
    std::int64_t group_begin = 0;  ///< in the arena: of the joined parameters that it belongs to
    bool counts = true;            ///< false: another rank or slice adds it to the sums
    bool decay = true;
  };
  comm::Communicator* all_ranks = nullptr;  ///< all ranks that hold a part of the model
  bool reproducible = false;
  std::vector<Slice> slices;              ///< of this rank
  std::vector<std::int64_t> first_block;  ///< by tensor of the whole model, and one more
  std::vector<std::int64_t> elements;     ///< by tensor of the whole model

  std::int64_t tensors() const { return static_cast<std::int64_t>(first_block.size()) - 1; }
  std::int64_t blocks() const { return first_block.back(); }
};

/// `local` are slices of one stage, `model` the parameters of the whole model in order. What every rank of a tensor
/// group has whole is counted by the first of them. `counts`: false on all replicas but one, where each updates
/// everything. Throws Error(internal) if a slice is not in the model. Pure.
TensorNormScope tensor_norm_scope(const std::vector<core::ParameterSlice>& local,
                                  const std::vector<core::ParameterSpec>& model, comm::Communicator& all_ranks,
                                  bool reproducible, int tensor_rank = 0, bool counts = true);

/// Collective over scope.all_ranks. `sums`, two numbers for each block, become complete; the result is two numbers for
/// each tensor.
std::vector<double> tensor_sums(const TensorNormScope& scope, std::span<double> sums);

}  // namespace bert_hpc::train
