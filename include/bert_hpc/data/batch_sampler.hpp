// BatchSampler: the samples of each step of a run. A step is a place in an epoch, so a run may start at any step.
//
// By length: `group` consecutive batches of the shuffled epoch are sorted together by length and cut again, and the
// batches of the group are drawn in random order. Groups are large, so that what shares a batch varies by epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/data/sampler.hpp"

namespace bert_hpc::data {

struct BatchSamplerOptions {
  SamplerOptions sampler;
  std::int64_t global_batch = 1;  ///< sequences in a step
  bool drop_last = false;         ///< leave out an epoch's last, smaller batch
  std::int64_t group = 64;        ///< batches sorted together, Order::by_length
};

class BatchSampler {
 public:
  /// lengths (samples): tokens of each sample; must outlive this. Throws Error(input) if an epoch would have no step.
  BatchSampler(std::span<const std::int32_t> lengths, const BatchSamplerOptions& options);

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t epoch_of(std::int64_t step) const { return step / steps_per_epoch_; }

  /// The samples of a step of the run, distinct, in no particular order: global_batch of them, or fewer in one step of
  /// an epoch (its last one; by length, one of its last group). Does not allocate once `samples` and the group have
  /// grown.
  void batch(std::int64_t step, std::vector<std::int64_t>& samples);

 private:
  void sort_group(std::int64_t epoch, std::int64_t group);

  std::span<const std::int32_t> lengths_;
  BatchSamplerOptions options_;
  Sampler sampler_;
  std::int64_t steps_per_epoch_;
  std::int64_t samples_per_epoch_;  // without those dropped
  std::int64_t sorted_epoch_ = -1, sorted_group_ = -1;
  std::vector<std::int64_t> sorted_;  // samples of the group, by (length, index)
};

}  // namespace bert_hpc::data
