// What a training is at one step beside its parameters and the optimizer's states: counts, running sums, the best
// evaluation. Samples, dropout and masks of every step follow from (seed, step, sample) and need nothing here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "bert_hpc/train/efficiency.hpp"
#include "bert_hpc/train/loss_scale.hpp"

namespace bert_hpc::app {

/// The best evaluation so far, and how long ago.
struct BestSoFar {
  bool kept = false;
  double value = 0;
  std::int64_t step = 0;
  std::int64_t evaluations_since = 0;

  /// The step whose checkpoint holds it.
  std::optional<std::int64_t> checkpoint() const { return kept ? std::optional(step) : std::nullopt; }
};

/// Steps whose loss or gradient was not finite, so that nothing was updated.
struct SkippedSteps {
  std::int64_t total = 0, in_a_row = 0;
};

struct TrainingState {
  std::int64_t done = 0;                 ///< updates
  std::int64_t samples = 0, tokens = 0;  ///< in recorded rows
  std::int64_t computed_tokens = 0;      ///< tokens with padding
  bool evaluation_due = false;           ///< after these updates, and not done yet
  io::StepRow row;                       ///< of the updates since the last recorded one, its loss not divided yet
  double row_targets = 0;                ///< what its loss is a sum over so far
  std::int64_t row_skipped_samples = 0;  ///< of its samples, those of skipped updates: not in its loss
  SkippedSteps skipped;
  std::int64_t earlier_updates = 0;  ///< of the optimizer's states, by phases before this run
  bool ended = false;                ///< no further step follows
  double training_seconds = 0, seconds = 0, flops = 0;
  double recorded_noise_scale = -1;
  train::NoiseScale::Sums noise;
  train::LossScale::State loss_scale;
  std::string fp8_magnitudes;  ///< of FP8's operands, of all ranks (ops::Fp8Scales::text); rank 0 knows
  std::string label_unit;      ///< of a regression: objectives::unit_text() of its head
  BestSoFar best;
  std::int64_t log_bytes = 0;  ///< of log.txt; rank 0 knows
};

/// Into the manifest's numbers and back. Throws Error(files) if one is missing; those of the loss scale, of FP8,
/// of the labels' scale, of phases and the row's targets are left as they are, as checkpoints of before there were any
/// lack them.
void put(const TrainingState& state, io::CheckpointManifest& manifest);
TrainingState training_state(const io::CheckpointManifest& manifest);

/// What metrics.h5 says of a whole run, by name. `timed_seconds`: of the timers' sections.
std::vector<std::pair<std::string, double>> run_totals(const TrainingState& state, double timed_seconds);

}  // namespace bert_hpc::app
