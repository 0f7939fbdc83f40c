// The group of all ranks of an MPI test program, with floats sent as in a run.
#pragma once

#include <memory>

#include "bert_hpc/comm/device_communicator.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"

namespace bert_hpc::test {

/// Another group of all ranks. Collective.
struct World {
  std::unique_ptr<bert_hpc::comm::Communicator> host = bert_hpc::comm::make_world_communicator();
  /// Tests may run several ranks on one GPU.
  std::unique_ptr<bert_hpc::comm::Communicator> devices = bert_hpc::comm::make_device_communicator(*host, true);
  World() {
    if (devices) devices->reserve_messages(0);
  }
  bert_hpc::comm::Communicator& get() const { return devices ? *devices : *host; }
};

inline bert_hpc::comm::Communicator& world() {
  static const World all;
  return all.get();
}

}  // namespace bert_hpc::test
