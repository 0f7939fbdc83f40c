// For --validate: what other values of [model] recompute and trainable would take, in memory and in time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/plan/simulation.hpp"

namespace bert_hpc::app {

/// A value of a key, and the input with it.
struct ModelChoice {
  std::string value;
  config::Config input;
};

/// The input with each of the named values of recompute, its own among them; only its own where something excludes
/// others. Pure.
std::vector<ModelChoice> recompute_choices(const config::Config& input);
/// The input as it is and with everything trained; empty if it trains everything. Pure.
std::vector<ModelChoice> trainable_choices(const config::Config& input);

/// What a choice takes. `seconds` counts operations where the machine is not known.
struct ChoiceCosts {
  std::int64_t bytes = 0;  ///< of the rank that takes most
  double seconds = 0;      ///< of a step
};

/// `"none" 1.4 GiB, 812 ms; "blocks" 620 MiB, 1.06 s`; with shares of the first one's operations where the machine is
/// not known. Pure.
std::string choices_text(const std::vector<ModelChoice>& choices, const std::vector<ChoiceCosts>& costs,
                         bool machine_is_known);

/// Collective. Prints both lists with --validate. `bytes_of`: planned memory with an input, of the rank that takes
/// most.
void report_choices(const RunContext& context, const SimulatedRun& run,
                    const std::function<std::int64_t(const config::Config&)>& bytes_of);

}  // namespace bert_hpc::app
