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

}  // namespace bert_hpc::app
