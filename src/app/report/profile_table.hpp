// The log's table of a profile.
#pragma once

#include <string>

#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

/// The calls that took longest, with their share of the steps' time and their rates per rank where their work is known;
/// then the other calls and what is left of the time. `path`: the file with all rows. Pure.
std::string profile_table(const io::Profile& profile, const std::string& path);

}  // namespace bert_hpc::app
