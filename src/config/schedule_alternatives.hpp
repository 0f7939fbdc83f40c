// Keys of [schedule] of which an input gives one: for the length of the training, of the warm-up and of the decay. On
// the command line each replaces the others of a file.
#pragma once

#include <string>
#include <vector>

namespace bert_hpc::config {

inline std::vector<std::vector<std::string>> schedule_alternatives() {
  return {{"schedule.epochs", "schedule.steps", "schedule.tokens"},
          {"schedule.warmup_steps", "schedule.warmup_ratio", "schedule.warmup_tokens"},
          {"schedule.decay_steps", "schedule.decay_ratio", "schedule.decay_tokens"}};
}

}  // namespace bert_hpc::config
