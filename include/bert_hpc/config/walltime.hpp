// Durations in the syntax of Slurm's --time, so that an input file and a job script can use the same text.
#pragma once

#include <optional>
#include <string>

namespace bert_hpc::config {

/// Seconds of "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes" or
/// "days-hours:minutes:seconds"; nullopt for any other text and for a zero duration. Pure.
std::optional<double> walltime_seconds(const std::string& text);

}  // namespace bert_hpc::config
