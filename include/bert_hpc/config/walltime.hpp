// Times as Slurm's --time takes them, so that an input file and a job script can say the same.
#pragma once

#include <optional>
#include <string>

namespace bert_hpc::config {

/// Seconds of "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes" or
/// "days-hours:minutes:seconds"; nothing for any other text and for no time at all. Pure.
std::optional<double> walltime_seconds(const std::string& text);

}  // namespace bert_hpc::config
