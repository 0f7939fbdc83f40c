// How much of a large batch is worth its samples. The gradient noise scale φ = tr Σ / |G|² (McCandlish et al., "An
// empirical model of large-batch training", 2018, appendix A.1) from squared norms of the same step's gradient over a
// small part of the batch (a replica's first micro-batch) and over the whole: E|G_b|² = |G|² + tr Σ / b, so two batch
// sizes give both unknowns. Either estimate is noisy and may be negative: numerator and denominator are smoothed apart.
// Word embeddings that are tied to a decoder are left out: a pipeline makes their gradient in two places, and adds the
// two up once a step, not for the small batch. So φ is of the same parameters on every layout.
//
// Statistical efficiency as in Pollux (Qiao et al. 2021): EFF(M) = (φ + M₀) / (φ + M), the progress per sample of a
// batch of M against one of M₀ samples, and goodput = throughput · EFF(M).
#pragma once

#include <cstdint>
#include <span>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::train {

/// Squared norms of mean gradients in one step.
struct NoiseMeasurement {
  double small_square = 0;   ///< mean over the small batches
  double inverse_small = 0;  ///< mean of 1 / samples over them
  double big_square = 0;     ///< of the whole batch
  double inverse_big = 0;    ///< 1 / samples
};

/// The two unknowns of a step. `small` and `big` batches must differ in size. Pure.
struct NoiseEstimate {
  double trace = 0;           ///< tr Σ, of one sample's gradient
  double square_of_mean = 0;  ///< |G|²
};
NoiseEstimate noise_estimate(const NoiseMeasurement& measurement);

/// Pure. M₀ = 1: against samples one at a time.
double statistical_efficiency(double noise_scale, double batch, double base_batch = 1.0);

class NoiseScale {
 public:
  /// Weight of the past per measurement: 0.95 remembers about 20.
  explicit NoiseScale(double memory = 0.95) : memory_(memory) {}

  void add(const NoiseMeasurement& measurement);
  /// φ in samples; NaN before the first measurement or while |G|² cannot be told from noise (≤ 0); at least 0.
  double value() const;

  /// What a resumed run goes on with: sums with weights that decay.
  struct Sums {
    double weight = 0, trace = 0, square = 0;
  };
  const Sums& sums() const { return sums_; }
  void restore(const Sums& sums) { sums_ = sums; }

 private:
  double memory_;
  Sums sums_;
};

/// One replica's part of a measurement. `squares`: Σ g² of its first micro-batch, where the gradient is of the sum of
/// losses over the global batch's `targets`; 0 samples: an empty micro-batch, which tells nothing. `left_out`: this
/// rank's part of the whole batch's Σ g² that is not to be counted.
struct SmallBatch {
  double squares = 0, left_out = 0;
  std::int64_t samples = 0, targets = 0;
};

/// Collective over everyone. `mine` of this rank, or of its part of a replica in stages or shares: samples are counted
/// by one rank of each replica (`speaks`), targets must be known to all of them. `norm` is of the whole gradient. False
/// where there is nothing to measure: the small batches are the whole.
bool measure_noise(comm::Communicator& everyone, const SmallBatch& mine, bool speaks, double norm,
                   std::int64_t batch_samples, double batch_targets, NoiseMeasurement& measurement);

}  // namespace bert_hpc::train
