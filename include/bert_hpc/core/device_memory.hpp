// Access of the host to device memory, where kernels run. On CPU builds host and device share one memory, and the calls
// below cost nothing. On CUDA builds the host cannot access device memory, so every transfer is one of these calls.
//
// A CPU build can check this: with the environment variable BERT_HPC_GUARD_DEVICE_MEMORY=1, device memory is
// inaccessible to the host (PROT_NONE) except while a kernel, a gemm or an attention runs, and the operands of these
// must lie in device memory. A stray access then crashes or throws in an ordinary test run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "bert_hpc/core/buffer.hpp"

namespace bert_hpc::core {

/// Whether the host can read and write device memory directly. True on CPU builds without the guard.
bool host_sees_device_memory();

/// Copies between host and device. They wait for all earlier kernels and for the copy itself. If both addresses are
/// equal, they do nothing.
void copy_to_host(const void* device, void* host, std::size_t bytes);
void copy_to_device(const void* host, void* device, std::size_t bytes);
/// Enqueues a copy in the order of kernels and returns at once. The caller must not change `host` (MemoryKind::host)
/// until the copy is done: after waiting for a DeviceMark set after the copy, or after any wait for kernels.
void start_copy_to_device(const void* host, void* device, std::size_t bytes);
/// As above, to `host`, which holds the data after the next wait for kernels.
void start_copy_to_host(const void* device, void* host, std::size_t bytes);
/// Copies within device memory, in the order of kernels.
void copy_on_device(const void* from, void* to, std::size_t bytes);
void fill_on_device(void* device, unsigned char value, std::size_t bytes);

/// Whether this build runs kernels on a GPU.
bool is_gpu_build();

/// CUDA builds: the stream of kernels, for libraries that must enqueue their work in the same order. It may be the null
/// stream, Kokkos' default. Null on CPU builds. DeviceRuntime sets it.
void* kernel_stream();
void set_kernel_stream(void* stream);

/// Waits until all kernels have finished and their results are visible. Needed for timing only: every copy to the host
/// waits by itself.
void wait_for_kernels();

/// A mark in the order of kernels and copies; the host can wait until everything before it is done. No-op on CPU
/// builds.
class DeviceMark {
 public:
  DeviceMark() = default;
  DeviceMark(const DeviceMark&) = delete;
  DeviceMark& operator=(const DeviceMark&) = delete;
  ~DeviceMark();
  void set();         ///< after everything started so far
  void wait() const;  ///< until everything before the last set() is done; returns at once if there was none
 private:
  void* event_ = nullptr;
};

template <class T>
void copy_to_host(std::span<const T> device, std::span<T> host) {
  copy_to_host(device.data(), host.data(), device.size_bytes());
}
template <class T>
void copy_to_device(std::span<const T> host, std::span<T> device) {
  copy_to_device(host.data(), device.data(), host.size_bytes());
}

/// Host-accessible memory that represents `device`: `device` itself if the host can access it, otherwise `staging`,
/// resized to match. Copies nothing; copy_to_device() transfers the result.
template <class T>
std::span<T> host_side(std::span<T> device, std::vector<T>& staging) {
  if (host_sees_device_memory()) return device;
  staging.resize(device.size());
  return staging;
}

/// The content of `device` for the host to read: in place if the host can access it, otherwise copied to `staging`.
template <class T>
std::span<const T> on_host(std::span<const T> device, std::vector<T>& staging) {
  if (host_sees_device_memory()) return device;
  staging.resize(device.size());
  copy_to_host(device.data(), staging.data(), device.size_bytes());
  return staging;
}

/// An array shared by kernels and the host, in either direction: one memory if the host can access device memory,
/// otherwise two.
template <class T>
class MirroredArray {
 public:
  MirroredArray() = default;
  explicit MirroredArray(std::int64_t count) : device_(count) {
    if (!host_sees_device_memory()) host_ = Buffer<T>(count, MemoryKind::host);
  }
  std::int64_t size() const { return device_.size(); }
  T* device() const { return device_.data(); }
  /// The data of the last to_host(), or the data that the next to_device() copies.
  T* host() const { return host_sees_device_memory() ? device_.data() : host_.data(); }

  /// The first `count` elements as the kernels left them. Waits for the kernels.
  std::span<T> to_host(std::int64_t count) const {
    const std::span<T> all(host(), static_cast<std::size_t>(count));
    copy_to_host(device(), all.data(), all.size_bytes());
    return all;
  }
  /// As to_host(), without waiting: host() holds the elements after the next wait for kernels.
  void start_to_host(std::int64_t count) const {
    start_copy_to_host(device(), host(), static_cast<std::size_t>(count) * sizeof(T));
  }
  /// Makes the first `count` elements of host() visible to all following kernels.
  void to_device(std::int64_t count) const {
    start_copy_to_device(host(), device(), static_cast<std::size_t>(count) * sizeof(T));
  }

 private:
  Buffer<T> device_, host_;
};

/// RAII: lets the host access device memory during its lifetime, on builds that run kernels as host code. Free unless
/// device memory is guarded.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Whether BERT_HPC_GUARD_DEVICE_MEMORY is set (CPU builds).
bool device_memory_is_guarded();

/// With guarded device memory: throws Error(internal) that names `what` unless `pointer` is null or points to memory
/// that kernels can access.
void require_device_memory(const void* pointer, const char* what);

/// Checks every address among the bytes of a kernel's body in the same way.
void require_device_operands(const void* body, std::size_t bytes, const char* kernel);

/// An address of the same memory that host libraries (MPI) can access at any time: `pointer` itself unless device
/// memory is guarded.
void* transport_address(const void* pointer);
template <class T>
T* transport_address(T* pointer) {
  return static_cast<T*>(transport_address(static_cast<const void*>(pointer)));
}

}  // namespace bert_hpc::core
