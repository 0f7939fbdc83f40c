// core::DeviceRuntime is with the kernel files because it needs Kokkos, which other files must not include.
#include "bert_hpc/core/device_runtime.hpp"

#include <Kokkos_Core.hpp>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

#ifdef KOKKOS_ENABLE_CUDA
#include "../core/cuda/check_cuda.hpp"
#include "bert_hpc/core/device_choice.hpp"
#include "bert_hpc/core/environment.hpp"
#endif

namespace bert_hpc::core {

DeviceRuntime::DeviceRuntime(int threads) {
  // Kokkos ends the process if there is no device, so this checks first.
  if (const std::string missing = missing_device(); !missing.empty()) throw Error(ExitCode::input, missing);
#ifdef KOKKOS_ENABLE_CUDA
  const GpuCache cache = gpu_cache_of(environment("BERT_HPC_GPU_CACHE"));
#endif
  // InitializationSettings replaces InitArguments from Kokkos 3.7 on.
#if KOKKOS_VERSION >= 30700
  Kokkos::InitializationSettings settings;
  if (threads > 0) settings.set_num_threads(threads);
  settings.set_disable_warnings(true);
#ifdef KOKKOS_ENABLE_CUDA
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  settings.set_device_id(device);
#endif
  Kokkos::initialize(settings);
#else
  Kokkos::InitArguments arguments;
  if (threads > 0) arguments.num_threads = threads;
  arguments.disable_warnings = true;
#ifdef KOKKOS_ENABLE_CUDA
  check_cuda(cudaGetDevice(&arguments.device_id), "cudaGetDevice");
#endif
  Kokkos::initialize(arguments);
#endif
#ifdef KOKKOS_ENABLE_CUDA
  // Kokkos 3.4 prefers shared memory on the whole device: kernels without a preference would run with the smallest L1
  // cache.
  if (cache == GpuCache::none) {
    check_cuda(cudaDeviceSetCacheConfig(cudaFuncCachePreferNone), "cudaDeviceSetCacheConfig");
  }
  set_kernel_stream(Kokkos::Cuda().cuda_stream());
#endif
}

DeviceRuntime::~DeviceRuntime() {
  Kokkos::finalize();
}

int DeviceRuntime::threads() const {
  return Kokkos::DefaultHostExecutionSpace().concurrency();
}

std::string DeviceRuntime::description() {
  return "Kokkos " + std::to_string(KOKKOS_VERSION / 10000) + "." + std::to_string(KOKKOS_VERSION / 100 % 100) + "." +
         std::to_string(KOKKOS_VERSION % 100) + ", " + Kokkos::DefaultExecutionSpace::name();
}

}  // namespace bert_hpc::core
