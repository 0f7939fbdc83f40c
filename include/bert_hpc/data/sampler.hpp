// Sampler: which sample comes i-th in an epoch, as a function of (seed, epoch, i) in O(1) memory and time, so that a
// resumed run finds its position at once and every rank agrees without talking.
//
// The order is a composition of bijections. A bijection on [0, n) is an alternating Feistel network on the next power
// of two, walked along its cycle until it falls below n again (Black and Rogaway, "Ciphers with arbitrary finite
// domains", CT-RSA 2002). Blocks of consecutive samples are permuted as wholes, then samples within windows of many
// blocks: a reader that caches a window reads the files block by block. Data that fit into one window are fully
// shuffled.
#pragma once

#include <cstdint>

namespace bert_hpc::data {

/// A pseudo-random bijection on [0, size), chosen by a key.
class Permutation {
 public:
  Permutation() = default;
  /// size ≥ 1.
  Permutation(std::int64_t size, std::uint64_t key);
  /// Image of i, 0 ≤ i < size.
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::uint64_t size_ = 1;
  std::uint64_t key_ = 0;
  int low_bits_ = 0, high_bits_ = 0;
};

enum class Order {
  random,     ///< shuffled again each epoch
  file,       ///< as in the shards, every epoch
  by_length,  ///< batches of like lengths, drawn in random order (BatchSampler)
};

struct SamplerOptions {
  std::uint64_t seed = 0;
  Order order = Order::random;
  std::int64_t block = 1024;                    ///< consecutive samples moved as one
  std::int64_t window = std::int64_t{1} << 20;  ///< samples shuffled among each other, at least a block
};

/// The i-th sample of an epoch. Order::by_length is as Order::random here: see BatchSampler.
class Sampler {
 public:
  /// size ≥ 1 samples.
  Sampler(std::int64_t size, const SamplerOptions& options);

  std::int64_t size() const { return size_; }
  /// Chooses the epoch; cheap.
  void set_epoch(std::int64_t epoch);
  std::int64_t epoch() const { return epoch_; }
  /// Sample number i of the epoch, 0 ≤ i < size.
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::int64_t block_at(std::int64_t position) const;

  std::int64_t size_;
  SamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::uint64_t epoch_key_ = 0;
  std::int64_t full_blocks_ = 0;     // the last, shorter block has a random position among them
  std::int64_t short_block_ = 0;     // its samples
  std::int64_t short_position_ = 0;  // position in the epoch of its first sample
  Permutation blocks_;
};

/// Steps of an epoch: batches of `global_batch` samples, the last one smaller or, with drop_last, left out.
/// 0 only with drop_last and fewer samples than a batch.
std::int64_t steps_per_epoch(std::int64_t samples, std::int64_t global_batch, bool drop_last);

/// Steps of a run: `steps` where given (above 0), else those of `epochs` epochs, rounded up. Throws Error(input) beyond
/// most_steps, which no run reaches, so that no count of steps overflows.
std::int64_t total_steps(std::int64_t steps, double epochs, std::int64_t steps_per_epoch);
inline constexpr std::int64_t most_steps = 1'000'000'000'000;

}  // namespace bert_hpc::data
