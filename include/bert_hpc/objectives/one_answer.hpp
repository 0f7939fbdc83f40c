// The warning about a model that gives the same answer whatever it reads (metrics::OneAnswer), its likely causes, and
// what to change. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::objectives {

/// While it trains, after `steps` updates.
std::string one_answer_in_training(const std::string& split, const metrics::OneAnswer& answer,
                                   const std::vector<std::string>& label_names, const config::Config& input,
                                   std::int64_t steps);

/// Message about a model for `task` that was trained before.
std::string one_answer_in_evaluation(const std::string& split, const metrics::OneAnswer& answer,
                                     const std::vector<std::string>& label_names, const std::string& task);

}  // namespace bert_hpc::objectives
