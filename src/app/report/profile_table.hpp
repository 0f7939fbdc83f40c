// The log's table of a profile.
#pragma once

#include <string>

#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

/// The calls that took longest, with their share of the steps' time and their rates per rank where their work is known;
/// then the other calls and what is left of the time. `place`: where all rows are. Pure.
std::string profile_table(const io::Profile& profile, const std::string& place);

}  // namespace bert_hpc::app
