// From places in an epoch to batches.
#include "bert_hpc/data/batch_sampler.hpp"

#include <algorithm>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/rng.hpp"

namespace bert_hpc::data {

BatchSampler::BatchSampler(std::span<const std::int32_t> lengths, const BatchSamplerOptions& options)
    : lengths_(lengths),
      options_(options),
      sampler_(static_cast<std::int64_t>(lengths.size()), options.sampler),
      steps_per_epoch_(data::steps_per_epoch(sampler_.size(), options.global_batch, options.drop_last)),
      samples_per_epoch_(std::min(sampler_.size(), steps_per_epoch_ * options.global_batch)) {
  core::require(options.global_batch >= 1 && options.group >= 1, "batches and groups hold at least one");
  if (options.sampler.order == Order::by_length) {
    sorted_.reserve(static_cast<std::size_t>(std::min(options.group * options.global_batch, sampler_.size())));
  }
  if (steps_per_epoch_ == 0) {
    throw core::Error(core::ExitCode::input,
                      "batch.drop_last leaves nothing to train on: " + std::to_string(lengths.size()) +
                          " samples are fewer than batch.global = " + std::to_string(options.global_batch) +
                          ". Lower batch.global or set batch.drop_last = false.");
  }
}

void BatchSampler::batch(std::int64_t step, std::vector<std::int64_t>& samples) {
  const std::int64_t epoch = epoch_of(step);
  const std::int64_t step_in_epoch = step % steps_per_epoch_;
  if (sampler_.epoch() != epoch) sampler_.set_epoch(epoch);
  samples.clear();
  if (options_.sampler.order != Order::by_length) {
    const std::int64_t begin = step_in_epoch * options_.global_batch;
    const std::int64_t end = std::min(begin + options_.global_batch, samples_per_epoch_);
    for (std::int64_t i = begin; i < end; ++i) samples.push_back(sampler_(i));
    return;
  }
  const std::int64_t group = step_in_epoch / options_.group;
  if (sorted_epoch_ != epoch || sorted_group_ != group) sort_group(epoch, group);
  const std::int64_t first_step = group * options_.group;
  const Permutation drawn(std::min(options_.group, steps_per_epoch_ - first_step),
                          core::mix64(core::mix64(options_.sampler.seed ^ 0x6C656E677468ull) ^
                                      static_cast<std::uint64_t>(epoch * steps_per_epoch_ + first_step)));
  const std::int64_t begin = drawn(step_in_epoch - first_step) * options_.global_batch;
  const std::int64_t end = std::min(begin + options_.global_batch, static_cast<std::int64_t>(sorted_.size()));
  samples.insert(samples.end(), sorted_.begin() + begin, sorted_.begin() + end);
}

void BatchSampler::sort_group(std::int64_t epoch, std::int64_t group) {
  const std::int64_t begin = group * options_.group * options_.global_batch;
  const std::int64_t end = std::min(begin + options_.group * options_.global_batch, samples_per_epoch_);
  sorted_.clear();
  for (std::int64_t i = begin; i < end; ++i) sorted_.push_back(sampler_(i));
  std::sort(sorted_.begin(), sorted_.end(), [this](std::int64_t a, std::int64_t b) {
    const std::int32_t length_a = lengths_[static_cast<std::size_t>(a)];
    const std::int32_t length_b = lengths_[static_cast<std::size_t>(b)];
    return length_a != length_b ? length_a < length_b : a < b;
  });
  sorted_epoch_ = epoch;
  sorted_group_ = group;
}

}  // namespace bert_hpc::data
