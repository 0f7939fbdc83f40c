// Floats that each rank keeps of the samples of a step, and their way to one rank in the order of the data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::app {

class StepResults {
 public:
  /// Room for `width` floats of a sample that this rank has computed; valid until the next call.
  std::span<float> add(std::int64_t sample, std::int64_t width);

  /// Collective. Rank `root` gets the samples of all ranks; the others have none then.
  void gather(comm::Communicator& world, int root);

  /// Calls `take` with the floats of each sample from `first` on, in order, and removes them. They are those of the
  /// next samples, each once; width(sample) as when they were added.
  void deliver(std::int64_t first, const std::function<std::int64_t(std::int64_t sample)>& width,
               const std::function<void(std::int64_t sample, std::span<const float>)>& take);

  std::int64_t samples() const { return std::ssize(samples_); }

 private:
  std::vector<std::int64_t> samples_;
  std::vector<float> kept_;          // of each of them
  std::vector<std::size_t> begins_;  // of the next samples, in kept_
};

}  // namespace bert_hpc::app
