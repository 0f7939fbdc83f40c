// Did the launcher and MPI understand each other? Where they do not (srun without the plugin that this MPI asks for,
// mpiexec of another MPI), every process finds itself alone in the world, and each would do the whole work into one
// directory.
#pragma once

#include <functional>
#include <string>

namespace bert_hpc::comm {

struct LaunchProblem {
  std::string text;     ///< what is wrong and what would be right; empty: nothing
  bool speaks = false;  ///< is this the first of the processes, which tells it for all?
};

/// `variable` tells an environment variable, "" where there is none. Pure.
LaunchProblem launch_problem(int world_size, const std::function<std::string(const char*)>& variable);
LaunchProblem launch_problem(int world_size);  ///< of this process

}  // namespace bert_hpc::comm
