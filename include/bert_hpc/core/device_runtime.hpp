// Starts and stops the device layer (Kokkos) of this process; the only place that does.
#pragma once

#include <string>

namespace bert_hpc::core {

/// RAII: Kokkos is up while one of these lives. Make it after MPI is up, once per process.
class DeviceRuntime {
 public:
  /// threads = 0: as OMP_NUM_THREADS and the process's cores say. CUDA builds: takes the process's current device;
  /// throws Error(input) where there is none.
  explicit DeviceRuntime(int threads = 0);
  ~DeviceRuntime();
  DeviceRuntime(const DeviceRuntime&) = delete;
  DeviceRuntime& operator=(const DeviceRuntime&) = delete;

  int threads() const;               ///< of the host that kernels use
  static std::string description();  ///< e.g. "Kokkos 3.4.1, OpenMP"

  /// Why this build cannot compute on this machine, or nothing: a CUDA build needs a GPU.
  static std::string missing_device();
};

}  // namespace bert_hpc::core
