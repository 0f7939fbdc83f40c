// What the user reads of a step that was skipped because its loss or gradient is not finite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "app/engine/trainer.hpp"
#include "bert_hpc/data/shard_reader.hpp"

namespace bert_hpc::app {

/// A sentence without its full stop: which step, why, and the samples, which come in the order of
/// the shards. Pure.
std::string skipped_text(std::int64_t step, const StepResult& result,
                         const std::function<data::SampleLocation(std::int64_t sample)>& location_of);

/// The first skipped steps of a run are listed with their samples, later ones are counted: a run may skip the same
/// samples in every epoch.
inline constexpr std::int64_t max_skips_listed = 3;
enum class SkipReport { nothing, details, count };
/// What to log when the run has skipped this many steps. Pure.
SkipReport skip_report(std::int64_t skipped);

/// The error of a run that skipped every one of its steps. Pure.
std::string nothing_trained_text(std::int64_t steps);

/// How to avoid skipped steps. `max_gradient_norm`: the current setting; 0 is no limit. Pure.
std::string divergence_advice(bool fp16, double max_gradient_norm);

}  // namespace bert_hpc::app
