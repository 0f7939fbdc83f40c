#include "bert_hpc/comm/launch.hpp"

#include <algorithm>
#include <cstdlib>

#include "bert_hpc/core/environment.hpp"

namespace bert_hpc::comm {

LaunchProblem launch_problem(int world_size, const std::function<std::string(const char*)>& variable) {
  if (world_size != 1) return {};
  struct Launcher {
    const char *name, *size, *rank, *cure;
  };
  static constexpr const char* another =
      "bert_hpc was built with another MPI: use that one's launcher, or build it with this one's mpicc.";
  // Open MPI comes first: processes that its mpirun starts within a Slurm step belong to mpirun.
  static constexpr Launcher launchers[] = {
      {"mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", another},
      {"mpiexec of an MPICH-like MPI", "PMI_SIZE", "PMI_RANK", another},
      {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
       "srun and this MPI share no start-up protocol: try srun --mpi=pmix (srun --mpi=list prints the choices; "
       "in jobs/train.slurm SLURM_MPI_TYPE), or mpirun."}};
  for (const Launcher& launcher : launchers) {
    const std::string size = variable(launcher.size), rank = variable(launcher.rank);
    if (size.empty() || rank.empty()) continue;
    if (std::atoi(size.c_str()) <= 1) return {};
    return {"this is one of " + size + " processes that " + launcher.name +
                " started, but each is alone in its own MPI world. " + launcher.cure,
            rank == "0"};
  }
  return {};
}

bool starts_alone(const std::function<std::string(const char*)>& variable) {
  // Launchers with these variables: Open MPI's and PRRTE's mpirun, srun and others by PMIx or PMI, MPICH's Hydra.
  static constexpr const char* set_by_launchers[] = {
      "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_FD", "PMI_SIZE"};
  return std::ranges::all_of(set_by_launchers, [&](const char* name) { return variable(name).empty(); });
}

LaunchProblem launch_problem(int world_size) {
  return launch_problem(world_size, core::environment);
}

}  // namespace bert_hpc::comm
