#include "bert_hpc/core/device_choice.hpp"

#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/error.hpp"
#include "check_cuda.hpp"

namespace bert_hpc::core {
namespace {

/// As nvidia-smi writes it.
std::string text_of(const cudaUUID_t& uuid) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

int numa_node_of(int device) {
  char place[32] = "";
  return cudaDeviceGetPCIBusId(place, sizeof place, device) == cudaSuccess ? numa_node_of_pci(place) : -1;
}

}  // namespace

std::string DeviceRuntime::missing_device() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return {};
  static_cast<void>(cudaGetLastError());  // reported here; clears it for the next call
  const std::string why = status == cudaSuccess ? "CUDA_VISIBLE_DEVICES hides all" : cudaGetErrorString(status);
  return "no GPU found (" + why +
         "), and this build of bert_hpc computes on GPUs only. Run it on a node that has one (under Slurm: "
         "--gpus-per-node), or use the CPU build (jobs/build.sh without --cuda).";
}

DeviceChoice choose_device(int rank_on_node) {
  if (const std::string missing = DeviceRuntime::missing_device(); !missing.empty()) {
    throw Error(ExitCode::input, missing);
  }
  int devices = 0;
  check_cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  const int device = rank_on_node % devices;
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return {properties.name, text_of(properties.uuid), numa_node_of(device),
          static_cast<std::int64_t>(properties.totalGlobalMem)};
}

}  // namespace bert_hpc::core
