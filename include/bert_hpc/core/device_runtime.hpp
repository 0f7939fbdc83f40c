// Starts and stops the device layer (Kokkos) of this process. No other file does.
#pragma once

#include <string>

namespace bert_hpc::core {

/// RAII: Kokkos is initialised during its lifetime. Create it after MPI, once per process.
class DeviceRuntime {
 public:
  /// threads = 0: OMP_NUM_THREADS and the process's cores decide. CUDA builds use the process's current device and
  /// throw Error(input) if there is none.
  explicit DeviceRuntime(int threads = 0);
  ~DeviceRuntime();
  DeviceRuntime(const DeviceRuntime&) = delete;
  DeviceRuntime& operator=(const DeviceRuntime&) = delete;

  int threads() const;               ///< host threads that kernels use
  static std::string description();  ///< e.g. "Kokkos 3.4.1, OpenMP"

  /// Why this build cannot compute on this machine (a CUDA build needs a GPU); empty if it can.
  static std::string missing_device();
};

}  // namespace bert_hpc::core
