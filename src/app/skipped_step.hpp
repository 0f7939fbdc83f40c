// What the user reads of a step that was skipped because its loss or gradient is not finite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bert_hpc/app/trainer.hpp"

namespace bert_hpc::app {

/// A sentence without its full stop: which step, why, and the samples, of which `place` tells shard and sequence. Pure.
std::string skipped_text(std::int64_t step, const StepResult& result,
                         const std::function<std::string(std::int64_t sample)>& place);

}  // namespace bert_hpc::app
