// Data parallelism: sums gradients over the group's ranks, distributes the optimizer's work (every rank updates the
// parameters that it owns), and shares the new parameters with all ranks. There are three methods.
//
// Overlapped: backward runs from the arena's end to its beginning, and buckets of the arena are reduced and scattered
// as soon as their gradients are complete, while backward continues.
//
// Sharded (ZeRO 2): the same without a gradient arena. The gradients of a unit (e.g. a block) live in a ring buffer
// from the moment backward begins to compute them until they are reduced, and a rank keeps only its own part of the
// sums. With several micro-batches, each one is reduced and added to that part.
//
// Reproducible: every chunk of the global batch gives one leaf of a binary tree over chunk numbers. A rank adds its
// leaves like a binary counter; the rest of the tree is added pairwise between ranks (recursive doubling). The layout
// decides only which rank holds which subtree, never the order of additions, so the bits do not depend on it.
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

  /// Call it before the first micro-batch of a step; `micro_batches` of this rank follow in every segment. `most`: the
  /// maximum over ranks, which every rank knows from the plan. With sharded gradients, a rank with fewer micro-batches
  /// still takes part in the other ranks' sums; that requires a single segment.
  virtual void begin_step(std::int64_t micro_batches, std::int64_t most) = 0;
  /// The same if all ranks have equally many.
  void begin_step(std::int64_t micro_batches) { begin_step(micro_batches, micro_batches); }
  /// Callback during a micro-batch's backward: the segment's gradients are complete from arena offset `begin` on.
  virtual void finished(int segment, std::int64_t begin) = 0;
  /// Call it after a micro-batch's backward through a segment.
  virtual void end_micro_batch(int segment) = 0;
  /// Collective. Afterwards the owned ranges' gradients are the sums over all ranks.
  virtual void end_step() = 0;
  /// `summed(i)` is called in every end_step() as soon as owned()[i] holds its sums.
  void set_summed(std::function<void(std::size_t)> summed) { summed_ = std::move(summed); }
  /// `complete` is called in every end_step() once this rank's pieces of the sums are complete and before they are
  /// read: it can add the sums of ranks outside the group.
  void set_completion(std::function<void(std::span<const OwnedRange> pieces)> complete) {
    complete_ = std::move(complete);
  }
  /// Collective over the norm's scope. L2 norm of the summed gradient; call it after end_step().
  double gradient_norm() { return norm_(); }
  /// The norm's separate phases, for a caller that overlaps them with other work.
  GradientNorm& norm() { return norm_; }

  // Shorthands for a single segment.
  void finished(std::int64_t begin) { finished(0, begin); }
  void end_micro_batch() { end_micro_batch(0); }

  const ShardPlan& plan() const { return plan_; }
  /// The ranges that this rank updates.
  std::span<const OwnedRange> owned() const { return owned_; }

  /// Collective. Begins to share owned()[i] after its update with all ranks, so that this overlaps with the update of
  /// the next range. Call it in ascending order; share_parameters() shares the remaining ranges.
  void share_range(std::size_t i);
  /// Collective. Call it after the update: afterwards all ranks have all new parameters, and all gradients are zero.
  void share_parameters();

  /// Enables or disables, from the next step on, the sum of squares of this rank's gradients of the first micro-batch:
  /// see train/efficiency.hpp.
  void measure_first_micro_batch(bool measure) { measures_ = measure; }
  /// Σ g² of the step's first micro-batch on this rank, over the parameters that the norm's scope counts here and
  /// includes in measurements; 0 if it was not measured. Valid after a wait for the kernels.
  double first_micro_batch_squares() const;
  /// The same for the parameters that the scope excludes from measurements, in this rank's part of the summed gradient.
  /// Start it after end_step() and before the update; read the result after a wait for the kernels.
  void start_squares_without_noise() { norm_.start_left_out(); }
  double squares_without_noise() const { return norm_.left_out(); }

 protected:
  /// `parts` of the summed gradient are this rank's share of the norm.
  DataParallel(comm::Communicator& group, core::ParameterStore& parameters, const ShardPlan& plan,
               const NormScope& scope, std::vector<OwnedRange> parts);
  std::span<float> gradients(const ShardPlan::Bucket& bucket) const;
  void report_summed();  // calls summed_ for all of owned_
  /// Adds squares of `gradients`, those of the arena's elements from `begin` on.
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
  std::size_t shared_ = 0;         // ranges whose parameters are being shared
  std::vector<ArenaRange> noise_;  // counted ranges
  core::MirroredArray<double> partials_;
};

/// For `group.size()` ranks that hold the same parameters, aligned to shard_alignment(). The store has gradients unless
/// the plan shards them (then it holds values only). `parameters` must outlive the result. In reproducible mode every
/// micro-batch is one chunk, in order.
std::unique_ptr<DataParallel> make_data_parallel(comm::Communicator& group, core::ParameterStore& parameters,
                                                 const ShardSettings& settings, const NormScope& scope);
/// For a group that shares the whole model.
std::unique_ptr<DataParallel> make_data_parallel(comm::Communicator& group, core::ParameterStore& parameters,
                                                 const ShardSettings& settings = {});

}  // namespace bert_hpc::train
