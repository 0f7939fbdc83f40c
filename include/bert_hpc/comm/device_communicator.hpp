// The communicator of a run: floats between devices, everything else between hosts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::comm {

/// Collective over `host`, which must outlive the result; after the device is chosen. CUDA builds: NCCL, bootstrapped
/// over `host`; elsewhere null, as `host` does both. shared_devices: several ranks use one GPU. before_end: called, by
/// a thread of its own, before a rank that NCCL has lost ends all ranks (abort_all_ranks()).
std::unique_ptr<Communicator> make_device_communicator(Communicator& host, bool shared_devices,
                                                       std::function<void()> before_end = {});

/// What floats travel over, e.g. "NCCL 2.28.9"; empty where it is MPI.
std::string device_communication();

}  // namespace bert_hpc::comm
