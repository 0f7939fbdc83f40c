// Statistical efficiency of large batches. The gradient noise scale φ = tr Σ / |G|² (McCandlish et al., "An empirical
// model of large-batch training", 2018, appendix A.1) follows from squared norms of the same step's gradient over a
// small part of the batch (a replica's first micro-batch) and over the whole: E|G_b|² = |G|² + tr Σ / b, so two batch
// sizes give both unknowns. Both estimates are noisy and may be negative, so numerator and denominator are smoothed
// separately. Word embeddings tied to a decoder, and parameters that all blocks share, are excluded: the gradients of
// their uses are added up once a step, not for the small batch. So φ refers to the same parameters on every layout.
//
// Statistical efficiency as in Pollux (Qiao et al. 2021): EFF(M) = (φ + M₀) / (φ + M), the progress per sample of a
// batch of M relative to one of M₀ samples, and goodput = throughput · EFF(M).
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

/// The two unknowns, estimated from one step. `small` and `big` batches must differ in size. Pure.
struct NoiseEstimate {
  double trace = 0;           ///< tr Σ, of one sample's gradient
  double square_of_mean = 0;  ///< |G|²
};
NoiseEstimate noise_estimate(const NoiseMeasurement& measurement);

/// Pure. M₀ = 1: relative to batches of one sample.
double statistical_efficiency(double noise_scale, double batch, double base_batch = 1.0);

class NoiseScale {
 public:
  /// Weight of the past per measurement: 0.95 averages over about 20.
  explicit NoiseScale(double memory = 0.95) : memory_(memory) {}

  void add(const NoiseMeasurement& measurement);
  /// φ in samples, at least 0; NaN before the first measurement or while |G|² cannot be distinguished from noise (≤ 0).
  double value() const;

  /// State for checkpoints: sums with decaying weights.
  struct Sums {
    double weight = 0, trace = 0, square = 0;
  };
  const Sums& sums() const { return accumulators_; }
  void restore(const Sums& sums) { accumulators_ = sums; }

 private:
  double memory_;
  Sums accumulators_;
};

/// One replica's part of a measurement, from its first micro-batch: its `samples`, its `targets`, and `squares`, Σ g²
/// of the gradient of its sum of losses divided by the global batch's number of targets. samples = 0: an empty
/// micro-batch, which gives no measurement. `left_out`: this rank's part of the whole batch's Σ g² that must not be
/// counted.
struct SmallBatch {
  double squares = 0, left_out = 0;
  std::int64_t samples = 0, targets = 0;
};

/// Collective over `all_ranks`. `mine` belongs to this rank, or to its part of a replica that is split over stages or
/// tensor-parallel ranks: one rank of each replica counts its samples (`contributes`), and all its ranks must know the
/// targets. `norm` is that of the whole gradient. Returns false if nothing can be measured because the small batches
/// are the whole.
bool measure_noise(comm::Communicator& all_ranks, const SmallBatch& mine, bool contributes, double norm,
                   std::int64_t batch_samples, double batch_targets, NoiseMeasurement& measurement);

}  // namespace bert_hpc::train
