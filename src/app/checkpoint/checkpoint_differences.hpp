// What a checkpoint records of the run that made it, compared with this start: what prevents a resume, what may change,
// and what may change but deserves a warning. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/run/input_changes.hpp"

namespace bert_hpc::app {

/// What a checkpoint records of the run that made it, by name: the same on every rank.
using CheckpointTexts = std::vector<std::pair<std::string, std::string>>;

struct CheckpointDifferences {
  std::vector<std::string> incompatibilities;  ///< the run cannot resume
  std::vector<KeyChange> changes;              ///< of the input
  std::vector<std::string> warnings;           ///< allowed, but figures or bits are not comparable any more
};

/// `there` of the checkpoint, `here` as checkpoint_texts() makes it now; `reproducible`: this start is to be.
CheckpointDifferences checkpoint_differences(const CheckpointTexts& there, const CheckpointTexts& here,
                                             const ResolvedInput& input, bool reproducible);

}  // namespace bert_hpc::app
