// Rules of the table [schedule] that involve several keys. Internal to the module.
#pragma once

#include <vector>

#include "bert_hpc/config/config.hpp"

namespace bert_hpc::config {

std::vector<ConfigProblem> schedule_problems(const Config& config);

}  // namespace bert_hpc::config
