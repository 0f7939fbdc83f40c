// Which device a rank computes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bert_hpc::core {

struct DeviceChoice {
  std::string name = "CPU";  ///< "CPU" or a GPU's
  std::string identity;      ///< the same for two ranks exactly if they use one GPU; empty on CPUs
  int numa_node = -1;        ///< that the GPU is connected to; −1: unknown
  std::int64_t memory = 0;   ///< of the GPU, bytes
};

/// CUDA builds: takes, for this process and from now on, the GPU with this number among those that it sees
/// (CUDA_VISIBLE_DEVICES, Slurm), counted from the begin again after the last; throws Error(input) where it sees none.
/// CPU builds: nothing to choose.
DeviceChoice choose_device(int rank_on_node);

/// The NUMA node of the device at a PCI address, as CUDA writes it ("0000:3B:00.0"), told by the system's folder of PCI
/// devices; −1: unknown.
int numa_node_of_pci(const std::string& address, const std::string& folder = "/sys/bus/pci/devices");

/// What is wrong with ranks that use one GPU, by rank, and the cure; empty if nothing is.
std::string shared_device_problem(const std::vector<std::string>& identities);

}  // namespace bert_hpc::core
