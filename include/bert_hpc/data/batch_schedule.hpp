// BatchSchedule: number of sequences of each step of a run, and the part of an epoch that the step takes. A function of
// the step alone, in constant memory, so that a run may start at any step on any layout.
//
// Batch-size warm-up (Smith et al. 2018; the ramp of Megatron-LM and of ModernBERT): sizes grow from `start` by
// `increment` to the full size, and each size but the last has the same number of sequences, or of steps.
#pragma once

#include <cstdint>
#include <vector>

namespace bert_hpc::data {

struct BatchWarmup {
  std::int64_t start = 0;      ///< sequences of the first steps; 0: no warm-up
  std::int64_t increment = 0;  ///< sequences between a size and the next, at least 1
  // Length until the full size, one of two:
  double epochs = 0;       ///< passes over the data
  std::int64_t steps = 0;  ///< if above 0
};

class BatchSchedule {
 public:
  /// Epochs of `samples` ≥ 1 sequences in batches of `full`, an epoch's last one smaller or, with drop_last, left out.
  /// Throws Error(input) if drop_last leaves an epoch without a step.
  BatchSchedule(std::int64_t samples, std::int64_t full, bool drop_last, const BatchWarmup& warmup = {});

  /// Neighbouring steps of one size in one epoch.
  struct Stretch {
    std::int64_t first_step = 0, steps = 0;
    std::int64_t epoch = 0;
    std::int64_t begin = 0, end = 0;  ///< positions in the epoch
    std::int64_t size = 0;            ///< sequences of a step; an epoch's last one may have fewer
  };
  Stretch stretch_of(std::int64_t step) const;

  bool grows() const { return levels_.size() > 1; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }     ///< of the full size
  std::int64_t first_full_step() const { return levels_.back().step; }  ///< from which on batches are full
  std::int64_t sizes() const { return std::int64_t(levels_.size()); }   ///< number of different sizes
  std::int64_t size_of(std::int64_t step) const { return level_of(step).size; }
  std::int64_t epoch_of(std::int64_t step) const { return stretch_of(step).epoch; }
  /// Whether the first `done` steps end with an epoch.
  bool ends_epoch(std::int64_t done) const { return done > 0 && epoch_of(done) > epoch_of(done - 1); }
  /// Passes over the data in the first `done` steps.
  double epochs_of(std::int64_t done) const;
  /// Mean size of steps [first, last), not counting that an epoch's last batch is smaller; that of `first` if there are
  /// none.
  double mean_size(std::int64_t first, std::int64_t last) const;
  /// Least number of steps with so many passes over the data, at least 1. Throws Error(input) beyond most_steps.
  std::int64_t steps_of(double epochs) const;

 private:
  /// All steps of one size.
  struct Level {
    std::int64_t step = 0;              // the first
    std::int64_t epoch = 0, begin = 0;  // its position
    std::int64_t size = 0;
    std::int64_t drawn = 0;  // sequences of all steps before, with every batch whole
  };
  const Level& level_of(std::int64_t step) const;
  std::int64_t steps_from(std::int64_t begin, std::int64_t size) const;
  void append_level(std::int64_t steps, std::int64_t next_size);

  std::int64_t samples_;
  bool drop_last_;
  std::int64_t steps_per_epoch_;
  std::vector<Level> levels_;  // by step, the full size last
};

}  // namespace bert_hpc::data
