// RUN/checkpoints may be a symbolic link, for example to a larger disk. If it led to another run's checkpoints, this
// run would prune, rename and overwrite them. A folder that is the target of such a link therefore holds a file .run
// that names the directory of the run that owns it; a folder inside a run's own directory belongs to that run without a
// mark.
#pragma once

#include <string>

namespace bert_hpc::app {

/// Directory of the other run that owns the target of RUN/checkpoints; "" if it has no owner or belongs to this run.
std::string other_owner_of_checkpoints(const std::string& run);

/// Marks the target of a link at RUN/checkpoints as this run's. Throws Error(files).
void own_checkpoints(const std::string& run);

/// Throws Error(input) if the checkpoints belong to another run.
void check_checkpoint_owner(const std::string& run);

}  // namespace bert_hpc::app
