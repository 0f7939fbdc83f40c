// BatchSampler: the samples of each step of a run. A step is a range of an epoch, so a run may start at any step.
//
// By length: `group` consecutive batches of the shuffled epoch are sorted together by length and cut again, and the
// batches of the group are drawn in random order. Groups are large, so that what shares a batch varies by epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/data/batch_schedule.hpp"
#include "bert_hpc/data/sampler.hpp"

namespace bert_hpc::data {

struct BatchSamplerOptions {
  SamplerOptions sampler;
  std::int64_t global_batch = 1;  ///< sequences in a step, after the warm-up
  bool drop_last = false;         ///< leave out an epoch's last, smaller batch
  std::int64_t group = 64;        ///< batches sorted together, Order::by_length
  BatchWarmup warmup{};
};

class BatchSampler {
 public:
  /// lengths (samples): tokens of each sample; must outlive this. Throws Error(input) if an epoch would have no step.
  BatchSampler(std::span<const std::int32_t> lengths, const BatchSamplerOptions& options);

  const BatchSchedule& schedule() const { return schedule_; }

  /// The samples of a step of the run, distinct, in no particular order: as many as the schedule's size, or fewer in
  /// one step of an epoch (its last one; by length, one of its last group). Does not allocate once `samples` and the
  /// group have grown.
  void batch(std::int64_t step, std::vector<std::int64_t>& samples);

 private:
  void sort_group(const BatchSchedule::Stretch& stretch, std::int64_t group);

  std::span<const std::int32_t> lengths_;
  BatchSamplerOptions options_;
  Sampler sampler_;
  BatchSchedule schedule_;
  std::int64_t sorted_from_ = -1;     // first step of the group
  std::vector<std::int64_t> sorted_;  // samples of the group, by (length, index)
};

}  // namespace bert_hpc::data
