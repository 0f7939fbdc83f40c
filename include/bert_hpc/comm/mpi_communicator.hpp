// The MPI side of comm: start-up and shutdown of MPI, and communicators over it. mpi.h stays in the .cpp file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::comm {

/// RAII: MPI is up while one of these lives. Without a launcher it is a world of one rank.
class MpiRuntime {
 public:
  MpiRuntime(int* argc, char*** argv);
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  static std::string description();  ///< e.g. "Open MPI 4.1.4"
};

/// A duplicate of MPI_COMM_WORLD. Collective over all ranks, while MPI is up.
std::unique_ptr<Communicator> make_world_communicator();

/// What reserve_messages(bytes) takes on each of so many ranks, if they share a node.
std::int64_t message_room_bytes(std::int64_t bytes, int ranks);

/// Where this rank stands among those that share its host's memory. Launchers number ranks of a host differently (under
/// mpirun within a Slurm job every rank has SLURM_LOCALID 0); MPI knows.
struct NodePlace {
  int rank = 0, ranks = 1;
};
/// Collective over all ranks, while MPI is up.
NodePlace place_on_node();

/// Ends every rank at once with this exit status, this one within seconds whatever its other threads are at; for a rank
/// that fails alone. Nothing is unwound. Any thread.
[[noreturn]] void abort_all_ranks(int exit_status);

}  // namespace bert_hpc::comm
