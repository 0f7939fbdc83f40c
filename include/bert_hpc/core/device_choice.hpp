// Which device a rank computes on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bert_hpc::core {

struct DeviceChoice {
  std::string name = "CPU";  ///< "CPU" or a GPU's
  std::string identity;      ///< the same for two ranks exactly if they use one GPU, as NVML names it; empty on CPUs
  int numa_node = -1;        ///< that the GPU is connected to; −1: unknown
  std::int64_t memory = 0;   ///< of the GPU, bytes
  int visible = 0;           ///< GPUs that this process sees
};

/// CUDA builds: takes, for this process and from now on, the GPU with this number among those that it sees
/// (CUDA_VISIBLE_DEVICES, Slurm), counted from the begin again after the last; throws Error(input) where it sees none.
/// CPU builds: nothing to choose.
DeviceChoice choose_device(int rank_on_node);

/// What decides how a GPU's multiprocessors split their memory between L1 cache and shared memory.
enum class GpuCache {
  none,    ///< each kernel's needs: no preference is set
  kokkos,  ///< the preference of Kokkos, which is shared memory in some of its versions
};
/// BERT_HPC_GPU_CACHE's choice: "none" (also where it is empty) or "kokkos"; throws Error(input) for anything else.
GpuCache gpu_cache_of(const std::string& text);

/// The NUMA node of the device at a PCI address, as CUDA writes it ("0000:3B:00.0"), told by the system's folder of PCI
/// devices; −1: unknown.
int numa_node_of_pci(const std::string& address, const std::string& folder = "/sys/bus/pci/devices");

/// A GPU's identifier as nvidia-smi and NVML write it: "GPU-" and its 16 bytes, or "MIG-" where the name that CUDA
/// gives is that of a part of a GPU ("NVIDIA A100-SXM4-40GB MIG 1g.5gb").
std::string device_identity(const std::string& name, std::span<const unsigned char, 16> uuid);

/// What is wrong with ranks that use one GPU, by rank, and the cure; empty if nothing is.
std::string shared_device_problem(const std::vector<std::string>& identities);

}  // namespace bert_hpc::core
