#include "bert_hpc/core/device_choice.hpp"

#include <cstring>

#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/error.hpp"
#include "check_cuda.hpp"

namespace bert_hpc::core {
namespace {

std::string identity_of(const cudaDeviceProp& properties) {
  unsigned char uuid[16];
  static_assert(sizeof properties.uuid.bytes == sizeof uuid);
  std::memcpy(uuid, properties.uuid.bytes, sizeof uuid);
  return device_identity(properties.name, uuid);
}

int numa_node_of(int device) {
  char bus_id[32] = "";
  if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device) == cudaSuccess) return numa_node_of_pci(bus_id);
  clear_last_error();
  return -1;
}

}  // namespace

std::string DeviceRuntime::missing_device() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return {};
  clear_last_error();  // reported here
  const std::string why = status == cudaSuccess ? "CUDA_VISIBLE_DEVICES hides all" : cudaGetErrorString(status);
  return "no GPU found (" + why +
         "), and this build of bert_hpc computes on GPUs only. Run it on a node that has one (under Slurm: "
         "--gpus-per-node=N --gpu-bind=none), or use the CPU build (jobs/build.sh without --cuda).";
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
  return {.name = properties.name,
          .identity = identity_of(properties),
          .numa_node = numa_node_of(device),
          .memory = static_cast<std::int64_t>(properties.totalGlobalMem),
          .visible = devices};
}

}  // namespace bert_hpc::core
