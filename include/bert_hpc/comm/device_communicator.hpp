// The communicator of a run: floats travel between devices, all other data between hosts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::comm {

/// Collective over `host`, which must outlive the result. Call it after the device is chosen. CUDA builds return an
/// NCCL communicator, bootstrapped over `host`; CPU builds return null, as `host` does both. shared_devices: several
/// ranks use one GPU. If NCCL loses a rank, a thread calls before_end and then ends all ranks (abort_all_ranks()).
std::unique_ptr<Communicator> make_device_communicator(Communicator& host, bool shared_devices,
                                                       std::function<void()> before_end = {});

/// The library that transfers floats, e.g. "NCCL 2.28.9"; empty if it is MPI.
std::string device_communication();

}  // namespace bert_hpc::comm
