#include "bert_hpc/train/efficiency.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace bert_hpc::train {

NoiseEstimate noise_estimate(const NoiseMeasurement& m) {
  const double trace = (m.small_square - m.big_square) / (m.inverse_small - m.inverse_big);
  return {trace, m.big_square - trace * m.inverse_big};
}

double statistical_efficiency(double noise_scale, double batch, double base_batch) {
  return (noise_scale + base_batch) / (noise_scale + batch);
}

void NoiseScale::add(const NoiseMeasurement& measurement) {
  const NoiseEstimate estimate = noise_estimate(measurement);
  accumulators_.weight = memory_ * accumulators_.weight + 1;
  accumulators_.trace = memory_ * accumulators_.trace + estimate.trace;
  accumulators_.square = memory_ * accumulators_.square + estimate.square_of_mean;
}

double NoiseScale::value() const {
  if (accumulators_.weight == 0 || !(accumulators_.square > 0)) return std::numeric_limits<double>::quiet_NaN();
  return std::max(0.0, accumulators_.trace / accumulators_.square);
}

bool measure_noise(comm::Communicator& all_ranks, const SmallBatch& mine, bool contributes, double norm,
                   std::int64_t batch_samples, double batch_targets, NoiseMeasurement& measurement) {
  // Squares of mean gradients, inverse samples, small batches, excluded squares of the whole gradient.
  std::array<double, 4> sums = {0, 0, 0, mine.left_out};
  if (mine.samples > 0 && mine.targets > 0) {
    const double scale = batch_targets / static_cast<double>(mine.targets);
    sums[0] = mine.squares * scale * scale;
    if (contributes) {
      sums[1] = 1.0 / static_cast<double>(mine.samples);
      sums[2] = 1.0;
    }
  }
  all_ranks.all_reduce(std::span<double>(sums), comm::Reduction::sum);
  if (sums[2] == 0 || batch_samples <= 0) return false;
  const double big_square = std::max(0.0, norm * norm - sums[3]);
  measurement = {sums[0] / sums[2], sums[1] / sums[2], big_square, 1.0 / static_cast<double>(batch_samples)};
  return measurement.inverse_small > measurement.inverse_big * (1 + 1e-9);
}

}  // namespace bert_hpc::train
