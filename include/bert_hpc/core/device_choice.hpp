// Which device a rank computes on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bert_hpc::core {

struct DeviceChoice {
  std::string name = "CPU";  ///< "CPU" or the name of the GPU
  std::string identity;      ///< equal on two ranks exactly if they use the same GPU, as NVML names it; empty on CPUs
  int numa_node = -1;        ///< NUMA node of the GPU; −1: unknown
  std::int64_t memory = 0;   ///< memory of the GPU, bytes
  int visible = 0;           ///< GPUs visible to this process
};

/// CUDA builds: selects the device for the rest of the process. Takes number `rank_on_node`, modulo their count, of the
/// GPUs visible to the process (CUDA_VISIBLE_DEVICES, Slurm). Throws Error(input) if none is visible. CPU builds: does
/// nothing.
DeviceChoice choose_device(int rank_on_node);

/// The policy by which a GPU's multiprocessors split their memory between L1 cache and shared memory.
enum class GpuCache {
  none,    ///< set no preference: each kernel's needs decide
  kokkos,  ///< Kokkos' preference, which is shared memory in some versions
};
/// Parses BERT_HPC_GPU_CACHE: "none" or empty, or "kokkos". Throws Error(input) for anything else.
GpuCache gpu_cache_of(const std::string& text);

/// The NUMA node of the device at a PCI address as CUDA writes it ("0000:3B:00.0"), read from the system's folder of
/// PCI devices; −1: unknown.
int numa_node_of_pci(const std::string& address, const std::string& folder = "/sys/bus/pci/devices");

/// A GPU's identifier as nvidia-smi and NVML write it: "GPU-" and its 16 bytes, or "MIG-" if CUDA's device name is that
/// of a MIG instance ("NVIDIA A100-SXM4-40GB MIG 1g.5gb").
std::string device_identity(const std::string& name, std::span<const unsigned char, 16> uuid);

/// Reports ranks that share a GPU, with a remedy. `identities` by rank. Empty if there is no problem.
std::string shared_device_problem(const std::vector<std::string>& identities);

}  // namespace bert_hpc::core
