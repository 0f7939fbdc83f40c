// Start-up and shutdown of MPI, and communicators over MPI. mpi.h is included only in the .cpp file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::comm {

/// RAII: MPI is initialised during its lifetime. Without a launcher the world has one rank.
class MpiRuntime {
 public:
  MpiRuntime(int* argc, char*** argv);
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  static std::string description();  ///< e.g. "Open MPI 4.1.4"
};

/// A duplicate of MPI_COMM_WORLD. Collective over all ranks; MPI must be initialised.
std::unique_ptr<Communicator> make_world_communicator();

/// Bytes that reserve_messages(bytes) allocates on each of `ranks` ranks that share a node.
std::int64_t message_room_bytes(std::int64_t bytes, int ranks);

/// This rank's number among the ranks that share its host's memory. MPI determines it, as launchers number ranks of a
/// host differently (under mpirun within a Slurm job every rank has SLURM_LOCALID 0).
struct NodePosition {
  int rank = 0, ranks = 1;
};
/// Collective over all ranks; MPI must be initialised.
NodePosition position_on_node();

/// Ends every rank with this exit status, for a rank that fails alone. This rank ends within seconds whatever its other
/// threads do. No stack is unwound. May be called from any thread.
[[noreturn]] void abort_all_ranks(int exit_status);

}  // namespace bert_hpc::comm
