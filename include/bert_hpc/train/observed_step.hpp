// A training step as losses between inner values of student and teacher see it.
#pragma once

#include <cstdint>
#include <span>

namespace bert_hpc::train {

struct ObservedStep {
  double scale = 1;                ///< of the gradient of a loss that is a mean over the step
  double targets = 1, tokens = 1;  ///< of the global batch; the sums below are divided by `targets` later
  double* losses = nullptr;        ///< (pairs, micro-batches of all replicas): sums of losses are written here
  std::int64_t micro_batches = 0;  ///< of all replicas
  std::span<const std::int64_t> position{};  ///< (passes): number of each among the micro-batches of all replicas
};

}  // namespace bert_hpc::train
