// A training of several phases is a chain of runs: each begins with the parameters and the optimizer's states of the
// run before it, while data, sizes of batches, schedule and settings of the model without parameters may be others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/checkpoint/resume.hpp"

namespace bert_hpc::app {

/// Collective. From the run that [run] previous_phase names; nothing if the input has no such key. Throws AgreedError:
/// input if that run is missing, not finished, or has other parameters or optimizer states; files if its checkpoint is
/// damaged.
std::optional<Resume> begin_phase(const RunContext& context, const ModelInstance& model, DataSets& sets,
                                  std::int64_t total_steps);

/// Line of the log: names what such a run reads, and which of its counts start at 0.
std::string phase_text(const Resume& phase, const config::Run& run, std::int64_t total_steps);

}  // namespace bert_hpc::app
