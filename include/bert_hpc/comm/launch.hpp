// What the environment says about the launcher of this process. A launcher may not match MPI (srun without the plugin
// that this MPI needs, mpiexec of another MPI). In that case every process is alone in its own MPI world, and each
// would do the whole work in the same directory.
#pragma once

#include <functional>
#include <string>

namespace bert_hpc::comm {

struct LaunchProblem {
  std::string text;       ///< the problem and the remedy; empty: none
  bool is_first = false;  ///< whether this is the first process, which reports for all
};

/// `variable` returns the value of an environment variable, "" if it is not set. Pure.
LaunchProblem launch_problem(int world_size, const std::function<std::string(const char*)>& variable);
LaunchProblem launch_problem(int world_size);  ///< of this process

/// True if no launcher has started this process, so that MPI makes a world of it alone. `variable` as above. Pure.
bool starts_alone(const std::function<std::string(const char*)>& variable);

}  // namespace bert_hpc::comm
