// What a checkpoint says of the run that made it, against what this start says of itself: what keeps a run from going
// on, and what it may do at a price that is told. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/app/run/run_directory.hpp"

namespace bert_hpc::app {

/// What a checkpoint says of the run that made it, by name: the same on every rank.
using CheckpointTexts = std::vector<std::pair<std::string, std::string>>;

struct CheckpointDifferences {
  std::vector<std::string> against;   ///< the run cannot go on
  std::vector<std::string> changes;   ///< of the input, allowed ones
  std::vector<std::string> warnings;  ///< allowed too, but figures or bits are not comparable any more
};

/// `there` of the checkpoint, `here` as checkpoint_texts() makes it now; `reproducible`: this start is to be.
CheckpointDifferences checkpoint_differences(const CheckpointTexts& there, const CheckpointTexts& here,
                                             const ResolvedInput& input, bool reproducible);

}  // namespace bert_hpc::app
