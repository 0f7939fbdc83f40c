// A std::vector in memory that kernels can access, for tests' inputs and results. On CUDA builds it is pinned host
// memory, and tests of one process set CUDA_LAUNCH_BLOCKING=1 (support/listener.cpp), so that kernels' results are
// complete when an operation returns. Tests of several ranks wait (core::wait_for_kernels) before they read, as do
// tests that read the results of copies and fills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <type_traits>
#include <vector>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/parameter_store.hpp"

namespace test {

template <class T>
struct KernelMemory {
  using value_type = T;
  KernelMemory() = default;
  template <class U>
  KernelMemory(const KernelMemory<U>&) {}  // NOLINT: allocators convert
  T* allocate(std::size_t count) {
    using namespace bert_hpc::core;
    return static_cast<T*>(allocate_memory(count * sizeof(T), MemoryKind::host));
  }
  void deallocate(T* pointer, std::size_t count) {
    using namespace bert_hpc::core;
    free_memory(pointer, count * sizeof(T), MemoryKind::host);
  }
  bool operator==(const KernelMemory&) const { return true; }
};

template <class T>
using Vector = std::vector<T, KernelMemory<T>>;

/// A copy of device memory.
template <class T>
std::vector<std::remove_const_t<T>> copy_of(T* device, std::int64_t count) {
  std::vector<std::remove_const_t<T>> copy(static_cast<std::size_t>(count));
  bert_hpc::core::copy_to_host(device, copy.data(), copy.size() * sizeof(T));
  return copy;
}
template <class T>
std::vector<std::remove_const_t<T>> copy_of(std::span<T> device) {
  return copy_of(device.data(), static_cast<std::int64_t>(device.size()));
}

/// A copy of a device matrix as floats, without padding.
inline std::vector<float> floats_of(const bert_hpc::core::ConstMatrix& device) {
  return bert_hpc::core::with_type(device.type, [&]<class T>() {
    const bert_hpc::core::Tensor<const T> tensor = device.as<T>();
    std::vector<float> floats;
    for (std::int64_t i = 0; i < tensor.rows; ++i) {
      for (const T value : copy_of(tensor.row(i), tensor.columns)) floats.push_back(value);
    }
    return floats;
  });
}

/// The GEMM on this build's kind of device whose result rows do not depend on other rows.
inline const char* independent_products() {
  return bert_hpc::core::is_gpu_build() ? "cublas" : "native";
}

/// Memory for a core::ParameterStore whose arenas the test itself reads and writes; must outlive the store.
class Arenas {
 public:
  bert_hpc::core::ParameterStore::Memory memory() {
    const auto take = [this](std::size_t bytes) -> void* {
      taken_.emplace_back(static_cast<std::int64_t>(bytes), bert_hpc::core::MemoryKind::host);
      return taken_.back().data();
    };
    return {.values = take, .gradients = take};
  }

 private:
  std::deque<bert_hpc::core::Buffer<std::byte>> taken_;
};

}  // namespace test
