// The order of samples in an epoch.
#include "bert_hpc/data/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::data {
namespace {

constexpr int rounds = 8;    // alternating halves: every bit is changed four times
constexpr int min_bits = 8;  // halves of fewer than four bits mix too little

std::uint64_t low_mask(int bits) {
  return (std::uint64_t{1} << bits) - 1;
}

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t key) : size_(static_cast<std::uint64_t>(size)), key_(key) {
  core::require(size >= 1, "a permutation needs at least one element");
  const int bits = std::max(min_bits, static_cast<int>(std::bit_width(size_ - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

std::int64_t Permutation::operator()(std::int64_t i) const {
  std::uint64_t x = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t low = x & low_mask(low_bits_), high = x >> low_bits_;
    for (std::uint64_t round = 0; round < rounds; round += 2) {
      high ^= core::mix64(key_ ^ (low + (round << 56))) & low_mask(high_bits_);
      low ^= core::mix64(key_ ^ (high + ((round + 1) << 56))) & low_mask(low_bits_);
    }
    x = high << low_bits_ | low;
  } while (x >= size_);
  return static_cast<std::int64_t>(x);
}

Sampler::Sampler(std::int64_t size, const SamplerOptions& options) : size_(size), options_(options) {
  core::require(size >= 1 && options.block >= 1 && options.window >= options.block,
                "a sampler needs samples, blocks and windows of at least a block");
  // A window that covers everything shuffles everything: blocks add nothing.
  full_blocks_ = size <= options_.window ? 0 : size / options_.block;
  short_block_ = full_blocks_ == 0 ? 0 : size % options_.block;
  set_epoch(0);
}

void Sampler::set_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  epoch_key_ = core::mix64(core::mix64(options_.seed) ^ (static_cast<std::uint64_t>(epoch) * 0xD1B54A32D192ED03ull));
  if (full_blocks_ == 0) return;
  blocks_ = Permutation(full_blocks_, core::mix64(epoch_key_ ^ 1));
  const std::uint64_t positions = static_cast<std::uint64_t>(full_blocks_) + 1;
  short_position_ = static_cast<std::int64_t>(core::mix64(epoch_key_ ^ 2) % positions) * options_.block;
}

/// The sample at a position of the epoch when only blocks are permuted.
std::int64_t Sampler::block_at(std::int64_t position) const {
  if (short_block_ > 0 && position >= short_position_) {
    if (position < short_position_ + short_block_) return full_blocks_ * options_.block + position - short_position_;
    position -= short_block_;
  }
  return blocks_(position / options_.block) * options_.block + position % options_.block;
}

std::int64_t Sampler::operator()(std::int64_t i) const {
  if (options_.order == Order::file) return i;
  const std::int64_t window = i / options_.window;
  const std::int64_t begin = window * options_.window;
  const Permutation within(std::min(options_.window, size_ - begin),
                           core::mix64(epoch_key_ ^ (static_cast<std::uint64_t>(window) + 3)));
  const std::int64_t position = begin + within(i - begin);
  return full_blocks_ == 0 ? position : block_at(position);
}

std::int64_t steps_per_epoch(std::int64_t samples, std::int64_t global_batch, bool drop_last) {
  return drop_last ? samples / global_batch : (samples + global_batch - 1) / global_batch;
}

std::int64_t total_steps(std::int64_t steps, double epochs, std::int64_t steps_per_epoch) {
  using core::with_commas;
  const std::string most = " run is of at most " + with_commas(most_steps) + " steps: set ";
  if (steps > most_steps) {
    throw core::Error(core::ExitCode::input,
                      "[schedule] steps = " + with_commas(steps) + " is too many. A" + most + "fewer.");
  }
  if (steps > 0) return steps;
  const std::int64_t most_epochs = most_steps / steps_per_epoch;
  if (epochs > static_cast<double>(most_epochs)) {
    throw core::Error(core::ExitCode::input, "[schedule] asks for " + core::format_number(epochs, 6) +
                                                 " epochs, too many: an epoch has " +
                                                 core::counted(steps_per_epoch, "step") + ". A" + most + "at most " +
                                                 with_commas(most_epochs) + " epochs.");
  }
  constexpr double rounding = 1e-9;  // of a length in tokens that is a number of whole steps
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(epochs * static_cast<double>(steps_per_epoch) - rounding)));
}

}  // namespace bert_hpc::data
