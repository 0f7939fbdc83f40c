// Parameters that several blocks of a model have in common (a position bias of attention, all of ALBERT's) and each
// block stores for itself, so that blocks can lie on any stage. The gradients of the uses are summed separately over
// micro-batches and replicas, and added up once a step, in the order of blocks on every layout. All copies then get the
// same update.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/train/gradient_norm.hpp"

namespace bert_hpc::train {

/// The parameters of a model that have copies and are trained, but for `tied`, whose copy is that of TiedGradients.
/// Pure.
std::vector<std::string> shared_parameters(const std::vector<core::ParameterSpec>& model, const std::string& tied);

/// Bytes that a rank takes to exchange the gradients of all copies. Pure.
std::int64_t exchanged_bytes(const std::vector<core::ParameterSpec>& model, const std::vector<std::string>& names);

class SharedGradients {
 public:
  /// Location of the summed gradients of copies.
  struct Sums {
    /// Every rank has all copies of its parameters, and their sums over all replicas: nothing is exchanged.
    bool all_here = false;
    bool counts = true;   ///< if exchanged: no other replica gives add() the same elements of the same parameters
    int tensor_rank = 0;  ///< what every rank of a tensor group has whole is given by the first of them
  };

  /// `model`: the parameters of the whole model in order. `names`: shared_parameters(). `all_ranks`: all ranks that
  /// hold a part of the model. The parameters and `all_ranks` must outlive this object.
  SharedGradients(const core::ParameterStore& parameters, const std::vector<core::ParameterSpec>& model,
                  const std::vector<std::string>& names, comm::Communicator& all_ranks, const Sums& sums);

  /// Collective over all ranks. `sums` are this rank's pieces of the summed gradients, in fp32; those of copies become
  /// the sums over all copies.
  void add(std::span<const OwnedRange> sums);

 private:
  /// A run of elements of a copy that this rank has: elements [begin, begin + size) of the arena, from `offset` on in
  /// gradients_. `counts`: no other rank gives their sums.
  struct Run {
    std::int64_t begin = 0, size = 0, offset = 0;
    bool counts = true;
  };
  /// The copies of one parameter: `copies` rows of `size` elements in gradients_, from `first` on.
  struct Shared {
    std::int64_t first = 0, size = 0, copies = 0;
  };
  /// The copies of one parameter in the arena, in the order of blocks.
  struct Copies {
    std::vector<std::int64_t> begins;
    std::int64_t size = 0;
  };

  void find_exchanged(const core::ParameterStore& parameters, const std::vector<core::ParameterSpec>& model,
                      const std::vector<std::string>& names, const Sums& sums);
  void find_here(const core::ParameterStore& parameters, const std::vector<core::ParameterSpec>& model,
                 const std::vector<std::string>& names);
  void exchange(std::span<const OwnedRange> sums);
  std::span<float> row(const Shared& shared, std::int64_t copy) const {
    return {gradients_.data() + shared.first + copy * shared.size, static_cast<std::size_t>(shared.size)};
  }

  comm::Communicator& all_ranks_;
  std::vector<Copies> here_;  // if nothing is exchanged
  std::vector<Shared> shared_;
  std::vector<Run> runs_;
  core::Buffer<float> gradients_;  // gradients of each copy; 0 for elements of other ranks
};

}  // namespace bert_hpc::train
