#include "bert_hpc/data/batch_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/sampler.hpp"

namespace bert_hpc::data {

BatchSchedule::BatchSchedule(std::int64_t samples, std::int64_t full, bool drop_last, const BatchWarmup& warmup)
    : samples_(samples), drop_last_(drop_last), steps_per_epoch_(data::steps_per_epoch(samples, full, drop_last)) {
  core::require(full >= 1, "a batch holds at least one");
  if (steps_per_epoch_ == 0) {
    throw core::Error(core::ExitCode::input, "batch.drop_last leaves nothing to train on: " + std::to_string(samples) +
                                                 " samples are fewer than batch.global = " + std::to_string(full) +
                                                 ". Lower batch.global or set batch.drop_last = false.");
  }
  const bool grows = warmup.start > 0 && warmup.start < full;
  levels_.push_back({.size = grows ? warmup.start : full});
  if (!grows) return;
  core::require(warmup.increment >= 1, "a batch grows by at least one");
  const std::int64_t sizes = (full - warmup.start + warmup.increment - 1) / warmup.increment;
  const double drawn = warmup.epochs * static_cast<double>(samples);
  for (std::int64_t i = 0; i < sizes; ++i) {
    // Ends are those of exact shares, so that rounding does not add up. A size may have no step.
    const double share = static_cast<double>(i + 1) / static_cast<double>(sizes);
    const Level& last = levels_.back();
    const double left = warmup.steps > 0
                            ? std::round(share * static_cast<double>(warmup.steps)) - static_cast<double>(last.step)
                            : (share * drawn - static_cast<double>(last.drawn)) / static_cast<double>(last.size);
    append_level(std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(left - 1e-9))),
                 std::min(full, warmup.start + (i + 1) * warmup.increment));
  }
}

/// Ends the last level after `steps` steps.
void BatchSchedule::append_level(std::int64_t steps, std::int64_t next_size) {
  Level next = levels_.back();
  next.size = next_size;
  if (steps > 0) {
    const Stretch after = stretch_of(next.step + steps);
    const std::int64_t size = levels_.back().size;
    next.drawn += steps * size;
    next.step += steps;
    next.epoch = after.epoch;
    next.begin = after.begin + (next.step - after.first_step) * size;
  } else {
    levels_.pop_back();
  }
  if (steps_from(next.begin, next_size) == 0) {
    ++next.epoch;
    next.begin = 0;
  }
  levels_.push_back(next);
}

/// Steps of a size in the rest of an epoch.
std::int64_t BatchSchedule::steps_from(std::int64_t begin, std::int64_t size) const {
  return data::steps_per_epoch(samples_ - begin, size, drop_last_);
}

const BatchSchedule::Level& BatchSchedule::level_of(std::int64_t step) const {
  return *std::prev(std::upper_bound(levels_.begin(), levels_.end(), step,
                                     [](std::int64_t value, const Level& level) { return value < level.step; }));
}

BatchSchedule::Stretch BatchSchedule::stretch_of(std::int64_t step) const {
  const Level& level = level_of(step);
  Stretch found{.first_step = level.step, .epoch = level.epoch, .begin = level.begin, .size = level.size};
  found.steps = steps_from(level.begin, level.size);
  if (step - level.step >= found.steps) {
    const std::int64_t in_later = step - level.step - found.steps;
    const std::int64_t of_epoch = steps_from(0, level.size);
    found = {.first_step = step - in_later % of_epoch,
             .steps = of_epoch,
             .epoch = level.epoch + 1 + in_later / of_epoch,
             .size = level.size};
  }
  if (&level != &levels_.back()) found.steps = std::min(found.steps, (&level + 1)->step - found.first_step);
  found.end = std::min(found.begin + found.steps * found.size, samples_);
  return found;
}

double BatchSchedule::epochs_of(std::int64_t done) const {
  if (!grows()) return static_cast<double>(done) / static_cast<double>(steps_per_epoch_);
  const Stretch at = stretch_of(done);
  const auto steps = static_cast<double>(done - at.first_step);
  // Steps count the same in an epoch of one size, sequences in every other epoch.
  const bool whole = at.begin == 0 && at.steps == steps_from(0, at.size);
  const double share =
      whole ? steps / static_cast<double>(at.steps)
            : (static_cast<double>(at.begin) + steps * static_cast<double>(at.size)) / static_cast<double>(samples_);
  return static_cast<double>(at.epoch) + share;
}

double BatchSchedule::mean_size(std::int64_t first, std::int64_t last) const {
  const auto drawn = [this](std::int64_t step) {
    const Level& level = level_of(step);
    return static_cast<double>(level.drawn) + static_cast<double>(step - level.step) * static_cast<double>(level.size);
  };
  if (!grows() || last <= first) return static_cast<double>(size_of(first));
  return (drawn(last) - drawn(first)) / static_cast<double>(last - first);
}

std::int64_t BatchSchedule::steps_of(double epochs) const {
  const std::int64_t of_full = total_steps(0, epochs, steps_per_epoch_);
  if (!grows()) return of_full;
  constexpr double rounding = 1e-12;  // of lengths in tokens that are a number of whole steps
  std::int64_t low = 1, high = of_full + first_full_step() + 2;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (epochs_of(middle) >= epochs * (1 - rounding)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace bert_hpc::data
