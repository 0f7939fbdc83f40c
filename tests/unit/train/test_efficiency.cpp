// The noise scale of made-up gradients whose noise is known, and what follows from it.
#include "bert_hpc/train/efficiency.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"

using namespace bert_hpc;

namespace {

// Squared norm of the mean of `samples` gradients mean + noise · normal, dimension by dimension; adds the mean to `sum`
// with weight `samples`.
double squared_norm(std::mt19937_64& random, double mean, double noise, int samples, std::vector<double>& sum) {
  std::normal_distribution<double> normal;
  double square = 0;
  for (double& element : sum) {
    const double g = mean + noise / std::sqrt(samples) * normal(random);
    square += g * g;
    element += g * samples;
  }
  return square;
}

}  // namespace

TEST_CASE("exact squared norms give the noise exactly") {
  // |G|² = 4, tr Σ = 60: batches of 3 and 12 have E|G_b|² of 24 and 9.
  const train::NoiseEstimate estimate = train::noise_estimate({24, 1.0 / 3, 9, 1.0 / 12});
  CHECK(std::abs(estimate.trace - 60) < 1e-12);
  CHECK(std::abs(estimate.square_of_mean - 4) < 1e-12);
}

TEST_CASE("the noise scale of drawn gradients is found") {
  // 200 dimensions, mean 0.05, noise 0.5 in each: |G|² = 0.5, tr Σ = 50, φ = 100. Four replicas, 5, 10, 10 and 15
  // samples. A step's estimate of tr Σ has a spread of about 0.1 of it, that of |G|² of about 0.6 of it: over the 400
  // measurements that a memory of 0.9975 keeps (effectively 800), 0.02; 4 spreads are 0.1 of φ.
  std::mt19937_64 random(7);
  train::NoiseScale scale(0.9975);
  CHECK(std::isnan(scale.value()));
  for (int step = 0; step < 3000; ++step) {
    std::vector<double> sum(200, 0.0);
    train::NoiseMeasurement m;
    for (const int samples : {5, 10, 10, 15}) {
      m.small_square += squared_norm(random, 0.05, 0.5, samples, sum) / 4;
      m.inverse_small += 1.0 / samples / 4;
    }
    for (const double element : sum) m.big_square += element / 40 * (element / 40);
    m.inverse_big = 1.0 / 40;
    scale.add(m);
  }
  CHECK(std::abs(scale.value() - 100) < 10);
}

TEST_CASE("noise that drowns the mean gives no scale, and no noise a scale of 0") {
  train::NoiseScale drowned;
  drowned.add({10, 1.0 / 4, 2, 1.0 / 16});
  CHECK(std::isnan(drowned.value()));
  train::NoiseScale quiet;
  quiet.add({5, 1.0 / 4, 5, 1.0 / 16});
  CHECK(quiet.value() == 0);
}

TEST_CASE("efficiency is 1 at the base batch and halves where noise scale and batch are one") {
  CHECK(train::statistical_efficiency(100, 1) == 1);
  CHECK(std::abs(train::statistical_efficiency(1e6, 1e6) - 0.5) < 1e-6);
  CHECK(std::abs(train::statistical_efficiency(100, 300, 32) - 132.0 / 400) < 1e-15);
  CHECK(train::statistical_efficiency(0, 64) == 1.0 / 64);
}

TEST_CASE("a small batch's gradient is scaled from the sum over the batch to its own mean") {
  const auto self = comm::make_self_communicator();
  train::NoiseMeasurement m;
  // 10 of 40 targets: the gradient of the small batch's mean loss is four times what was measured.
  CHECK(train::measure_noise(*self, {.squares = 2, .samples = 5, .targets = 10}, true, 3, 20, 40, m));
  CHECK(m.small_square == 32);
  CHECK(m.inverse_small == 0.2);
  CHECK(m.big_square == 9);
  CHECK(m.inverse_big == 0.05);
  // What is left out is left out of the whole batch's gradient too.
  CHECK(train::measure_noise(*self, {.squares = 2, .left_out = 5, .samples = 5, .targets = 10}, true, 3, 20, 40, m));
  CHECK(m.small_square == 32);
  CHECK(m.big_square == 4);
  CHECK_FALSE(train::measure_noise(*self, {.squares = 2, .samples = 20, .targets = 40}, true, 3, 20, 40, m));
  CHECK_FALSE(train::measure_noise(*self, {}, true, 3, 20, 40, m));
}
