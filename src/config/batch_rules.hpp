// Rules of the table [batch] that involve several keys. Internal to the module.
#pragma once

#include <vector>

#include "bert_hpc/config/config.hpp"

namespace bert_hpc::config {

/// `replicas`: ranks in the data direction, 0 if unknown yet.
std::vector<ConfigProblem> batch_problems(const Config& config, int replicas);

}  // namespace bert_hpc::config
