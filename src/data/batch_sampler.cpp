// Samples of a batch by their positions in an epoch.
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
      schedule_(sampler_.size(), options.global_batch, options.drop_last, options.warmup) {
  core::require(options.group >= 1, "groups hold at least one");
  if (options.sampler.order == Order::by_length) {
    sorted_.reserve(static_cast<std::size_t>(std::min(options.group * options.global_batch, sampler_.size())));
  }
}

void BatchSampler::batch(std::int64_t step, std::vector<std::int64_t>& samples) {
  const BatchSchedule::Stretch stretch = schedule_.stretch_of(step);
  const std::int64_t number = step - stretch.first_step;
  if (sampler_.epoch() != stretch.epoch) sampler_.set_epoch(stretch.epoch);
  samples.clear();
  if (options_.sampler.order != Order::by_length) {
    const std::int64_t begin = stretch.begin + number * stretch.size;
    const std::int64_t end = std::min(begin + stretch.size, stretch.end);
    for (std::int64_t i = begin; i < end; ++i) samples.push_back(sampler_(i));
    return;
  }
  const std::int64_t group = number / options_.group;
  const std::int64_t first = group * options_.group;  // of the stretch's steps
  if (sorted_from_ != stretch.first_step + first) sort_group(stretch, group);
  const Permutation drawn(std::min(options_.group, stretch.steps - first),
                          core::mix64(core::mix64(options_.sampler.seed ^ 0x6C656E677468ull) ^
                                      static_cast<std::uint64_t>(stretch.first_step + first)));
  const std::int64_t begin = drawn(number - first) * stretch.size;
  const std::int64_t end = std::min(begin + stretch.size, static_cast<std::int64_t>(sorted_.size()));
  samples.insert(samples.end(), sorted_.begin() + begin, sorted_.begin() + end);
}

void BatchSampler::sort_group(const BatchSchedule::Stretch& stretch, std::int64_t group) {
  const std::int64_t begin = stretch.begin + group * options_.group * stretch.size;
  const std::int64_t end = std::min(begin + options_.group * stretch.size, stretch.end);
  sorted_.clear();
  for (std::int64_t i = begin; i < end; ++i) sorted_.push_back(sampler_(i));
  std::sort(sorted_.begin(), sorted_.end(), [this](std::int64_t a, std::int64_t b) {
    const std::int32_t length_a = lengths_[static_cast<std::size_t>(a)];
    const std::int32_t length_b = lengths_[static_cast<std::size_t>(b)];
    return length_a != length_b ? length_a < length_b : a < b;
  });
  sorted_from_ = stretch.first_step + group * options_.group;
}

}  // namespace bert_hpc::data
