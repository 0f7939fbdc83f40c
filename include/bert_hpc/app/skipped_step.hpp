// What the user reads of a step that was skipped because its loss or gradient is not finite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bert_hpc/app/trainer.hpp"
#include "bert_hpc/data/shard_reader.hpp"

namespace bert_hpc::app {

/// A sentence without its full stop: which step, why, and the samples, which come in the order of
/// the shards. Pure.
std::string skipped_text(std::int64_t step, const StepResult& result,
                         const std::function<data::SamplePlace(std::int64_t sample)>& place);

/// What usually mends a training that skips step after step. `max_gradient_norm`: as it is; 0 is no limit. Pure.
std::string divergence_advice(bool fp16, double max_gradient_norm);

}  // namespace bert_hpc::app
