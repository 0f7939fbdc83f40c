// core::DeviceRuntime lives among the kernel files because it needs Kokkos, which ordinary files must not see.
#include "bert_hpc/core/device_runtime.hpp"

#include <Kokkos_Core.hpp>

namespace bert_hpc::core {

DeviceRuntime::DeviceRuntime(int threads) {
  // InitArguments gave way to InitializationSettings in Kokkos 3.7.
#if KOKKOS_VERSION >= 30700
  Kokkos::InitializationSettings settings;
  if (threads > 0) settings.set_num_threads(threads);
  settings.set_disable_warnings(true);
  Kokkos::initialize(settings);
#else
  Kokkos::InitArguments arguments;
  if (threads > 0) arguments.num_threads = threads;
  arguments.disable_warnings = true;
  Kokkos::initialize(arguments);
#endif
}

DeviceRuntime::~DeviceRuntime() {
  Kokkos::finalize();
}

int DeviceRuntime::threads() const {
  return Kokkos::DefaultExecutionSpace().concurrency();
}

std::string DeviceRuntime::description() {
  return "Kokkos " + std::to_string(KOKKOS_VERSION / 10000) + "." + std::to_string(KOKKOS_VERSION / 100 % 100) + "." +
         std::to_string(KOKKOS_VERSION % 100) + ", " + Kokkos::DefaultExecutionSpace::name();
}

}  // namespace bert_hpc::core
