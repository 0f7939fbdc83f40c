// RUN/checkpoints may be a symbolic link, to a larger disk say. If it leads to where another run keeps its checkpoints,
// this one would prune those, rename them and write over them. A folder that a link leads to therefore names, in .run,
// the directory of the run that writes there; that of a run's own directory belongs to it without.
#pragma once

#include <string>

namespace bert_hpc::app {

/// The directory of the other run whose checkpoints RUN/checkpoints leads to; "" where it is nobody's or its own.
std::string other_owner_of_checkpoints(const std::string& run);

/// Marks what a link at RUN/checkpoints leads to as this run's. Throws Error(files).
void own_checkpoints(const std::string& run);

/// Throws Error(input) where they are another run's.
void check_checkpoint_owner(const std::string& run);

}  // namespace bert_hpc::app
