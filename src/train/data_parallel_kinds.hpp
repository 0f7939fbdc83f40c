// The kinds of DataParallel, for the one function that chooses among them. Private to train.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/train/data_parallel.hpp"

namespace bert_hpc::train {

class OverlappedDataParallel : public DataParallel {
 public:
  OverlappedDataParallel(comm::Communicator& group, const core::ParameterStore& parameters, const ShardPlan& plan,
                         const NormScope& scope);
  void begin_step(std::int64_t micro_batches) override;
  void finished(int segment, std::int64_t begin) override;
  void end_micro_batch(int segment) override;
  void end_step() override;

 private:
  /// `sums` are pieces of all buckets, one after the other; null where gradients themselves are the sums.
  OverlappedDataParallel(comm::Communicator& group, const core::ParameterStore& parameters, const ShardPlan& plan,
                         const NormScope& scope, core::Buffer<float> sums);
  void start();

  core::Buffer<float> sums_;
  std::vector<OwnedRange> pieces_;       // by bucket
  std::vector<std::int64_t> remaining_;  // by segment: micro-batches of the step still to come
  std::size_t next_ = 0;                 // buckets from here on are being reduced
};

class ReproducibleDataParallel : public DataParallel {
 public:
  ReproducibleDataParallel(comm::Communicator& group, const core::ParameterStore& parameters, const ShardPlan& plan,
                           const NormScope& scope);
  void begin_step(std::int64_t micro_batches) override;
  void finished(int, std::int64_t) override {}
  void end_micro_batch(int segment) override;
  void end_step() override;

 private:
  std::span<float> whole(std::size_t level) const;

  std::int64_t chunks_;             // of this rank
  std::vector<std::int64_t> done_;  // by segment: chunks in this step
  std::vector<core::Buffer<float>> levels_;
};

/// This rank's piece of every bucket, with its sums at `sums`, one after the other, or in the gradients.
std::vector<OwnedRange> pieces_of(const ShardPlan& plan, int rank, const core::ParameterStore& parameters, float* sums);

}  // namespace bert_hpc::train
