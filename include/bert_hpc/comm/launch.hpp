// Detects a launcher that does not match MPI (srun without the plugin that this MPI needs, mpiexec of another MPI). In
// that case every process is alone in its own MPI world, and each would do the whole work in the same directory.
#pragma once

#include <functional>
#include <string>

namespace bert_hpc::comm {

struct LaunchProblem {
  std::string text;       ///< the problem and the remedy; empty: none
  bool is_first = false;  ///< is this the first process, which reports for all?
};

/// `variable` returns the value of an environment variable, "" if it is not set. Pure.
LaunchProblem launch_problem(int world_size, const std::function<std::string(const char*)>& variable);
LaunchProblem launch_problem(int world_size);  ///< of this process

}  // namespace bert_hpc::comm
