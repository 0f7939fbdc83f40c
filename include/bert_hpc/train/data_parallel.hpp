// The data-parallel group's part of a step: sums gradients over ranks, shares the optimizer's work out (every rank
// updates the parameters it owns), and gives everybody the new parameters. Sums come in one of two ways.
//
// Overlapped: buckets of the arena are reduced and scattered as soon as backward has finished them, from the arena's
// end to its begin, while backward goes on.
//
// Reproducible: every chunk of the global batch gives one leaf of a binary tree over chunk numbers. A rank adds the
// leaves it holds as a binary counter does; the rest of the tree is added pairwise between ranks (recursive doubling).
// The layout decides only who holds which subtree, never the order of additions, so the bits do not depend on it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"

namespace bert_hpc::train {

/// A range of the arena that this rank updates, and where its summed gradients lie.
struct OwnedRange {
  std::int64_t begin = 0, size = 0;
  float* gradient = nullptr;  ///< (size)
};

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  /// Memory held beside the parameter store, bytes.
  virtual std::int64_t bytes() const = 0;

  /// Collective over the group. Before the first micro-batch of a step; `micro_batches` of this rank follow.
  virtual void begin_step(std::int64_t micro_batches) = 0;
  /// During a micro-batch's backward: the arena from `begin` on has this micro-batch's gradients.
  virtual void finished(std::int64_t begin) = 0;
  /// After a micro-batch's backward.
  virtual void end_micro_batch() = 0;
  /// Collective. Afterwards the owned ranges' gradients are the sums over all ranks.
  virtual void end_step() = 0;
  /// Collective. L2 norm of the summed gradient; after end_step().
  virtual double gradient_norm() = 0;

  /// What this rank updates.
  std::span<const OwnedRange> owned() const { return owned_; }

  /// Collective. After the update: everybody gets all new parameters, and all gradients are zero again.
  void share_parameters();

 protected:
  DataParallel(comm::Communicator& group, const core::ParameterStore& parameters, std::int64_t bucket_elements);

  comm::Communicator& group_;
  const core::ParameterStore& parameters_;
  std::int64_t bucket_;  // elements
  std::vector<OwnedRange> owned_;
  std::vector<comm::RequestHandle> requests_;
};

/// `parameters` (with gradients, its arena a multiple of 16·group.size() elements) must outlive the result.
std::unique_ptr<DataParallel> make_overlapped_data_parallel(comm::Communicator& group,
                                                            const core::ParameterStore& parameters,
                                                            std::int64_t bucket_elements = std::int64_t{1} << 19);

/// `chunks` of a global batch and the group's size are powers of two; every micro-batch is one chunk, in order.
std::unique_ptr<DataParallel> make_reproducible_data_parallel(comm::Communicator& group,
                                                              const core::ParameterStore& parameters,
                                                              std::int64_t chunks);

}  // namespace bert_hpc::train
