// The data-parallel group's part of a step: sums gradients over ranks, shares the optimizer's work out (every rank
// updates the parameters it owns), and gives everybody the new parameters. Sums come in one of two ways.
//
// Overlapped: buckets of the arena are reduced and scattered as soon as backward has finished them, from the arena's
// end to its begin, while backward goes on.
//
// Sharded (ZeRO 2): the same, but there is no arena of gradients: a unit's gradients (a block's, say) live in a ring of
// memory from the moment backward begins to make them until they are reduced, and of the sums a rank keeps its own
// part. With several micro-batches each one is reduced and added to that part.
//
// Reproducible: every chunk of the global batch gives one leaf of a binary tree over chunk numbers. A rank adds the
// leaves it holds as a binary counter does; the rest of the tree is added pairwise between ranks (recursive doubling).
// The layout decides only who holds which subtree, never the order of additions, so the bits do not depend on it.
//
// The arena consists of segments (virtual stages of a pipeline) whose micro-batches may interleave.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/train/gradient_norm.hpp"
#include "bert_hpc/train/shard_plan.hpp"

namespace bert_hpc::train {

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  /// Before the first micro-batch of a step; `micro_batches` of this rank follow in every segment. `most`: of any rank,
  /// as every rank knows from the plan. Where gradients are sharded a rank with fewer takes part in the others' sums,
  /// which goes with one segment only.
  virtual void begin_step(std::int64_t micro_batches, std::int64_t most) = 0;
  /// Where all ranks have as many.
  void begin_step(std::int64_t micro_batches) { begin_step(micro_batches, micro_batches); }
  /// During a micro-batch's backward: the segment from `begin` (counted in the arena) on has its gradients.
  virtual void finished(int segment, std::int64_t begin) = 0;
  /// After a micro-batch's backward through a segment.
  virtual void end_micro_batch(int segment) = 0;
  /// Collective. Afterwards the owned ranges' gradients are the sums over all ranks.
  virtual void end_step() = 0;
  /// `summed(i)` is called in every end_step() as soon as owned()[i] has its sums.
  void set_summed(std::function<void(std::size_t)> summed) { summed_ = std::move(summed); }
  /// `complete` is called in every end_step(), when this rank's pieces of the sums are there and nobody has read them
  /// yet: to add what ranks outside the group have summed.
  void set_completion(std::function<void(std::span<const OwnedRange> pieces)> complete) {
    complete_ = std::move(complete);
  }
  /// Collective over the norm's scope. L2 norm of the summed gradient; after end_step().
  double gradient_norm() { return norm_(); }
  /// Its parts, for a caller who has other things to wait for.
  GradientNorm& norm() { return norm_; }

  // Where there is one segment.
  void finished(std::int64_t begin) { finished(0, begin); }
  void end_micro_batch() { end_micro_batch(0); }

  const ShardPlan& plan() const { return plan_; }
  /// What this rank updates.
  std::span<const OwnedRange> owned() const { return owned_; }

  /// Collective. owned()[i] is updated: begins to give it to everybody, so that this overlaps with the update of the
  /// next. In order; ranges that are not named go with share_parameters().
  void share_range(std::size_t i);
  /// Collective. After the update: everybody gets all new parameters, and all gradients are zero again.
  void share_parameters();

  /// Squares of this rank's gradients of the first micro-batch of the steps from the next one on are to be summed, or
  /// not: see train/efficiency.hpp.
  void measure_first_micro_batch(bool measure) { measures_ = measure; }
  /// Σ g² of the step's first micro-batch on this rank, of what the norm's scope counts here and does not leave out; 0
  /// where it was not measured. After a wait for the kernels.
  double first_micro_batch_squares() const;
  /// The same of what the scope leaves out of measurements, in this rank's part of the summed gradient: launched after
  /// end_step() and before the update, read after a wait.
  void start_squares_without_noise() { norm_.start_left_out(); }
  double squares_without_noise() const { return norm_.left_out(); }

 protected:
  /// `parts` of the summed gradient are this rank's share of the norm.
  DataParallel(comm::Communicator& group, core::ParameterStore& parameters, const ShardPlan& plan,
               const NormScope& scope, std::vector<OwnedRange> parts);
  std::span<float> gradients(const ShardPlan::Bucket& bucket) const;
  void tell_summed();  // all of owned_
  /// Of the arena's elements from `begin` on, whose gradients are given.
  void add_squares(std::int64_t begin, std::span<const float> gradients);

  comm::Communicator& group_;
  core::ParameterStore& parameters_;
  ShardPlan plan_;
  std::vector<OwnedRange> owned_;
  GradientNorm norm_;
  std::vector<comm::RequestHandle> requests_;
  std::function<void(std::size_t)> summed_;
  std::function<void(std::span<const OwnedRange>)> complete_;
  bool measures_ = false;
  std::int64_t squares_ = 0;  // blocks whose squares are in partials_

 private:
  std::size_t shared_ = 0;         // ranges whose parameters are on their way
  std::vector<ArenaRange> noise_;  // what is counted
  core::MirroredArray<double> partials_;
};

/// For `group.size()` ranks that hold the same parameters, aligned as shard_alignment() says, with gradients unless the
/// plan shards them (then: values alone);
/// `parameters` must outlive the result. In reproducible mode every micro-batch is one chunk, in order.
std::unique_ptr<DataParallel> make_data_parallel(comm::Communicator& group, core::ParameterStore& parameters,
                                                 const ShardSettings& settings, const NormScope& scope);
/// Where the group shares the whole model.
std::unique_ptr<DataParallel> make_data_parallel(comm::Communicator& group, core::ParameterStore& parameters,
                                                 const ShardSettings& settings = {});

}  // namespace bert_hpc::train
