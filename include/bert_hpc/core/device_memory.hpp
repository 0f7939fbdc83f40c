// Device memory (where kernels run) as the host sees it. On CPU builds both are one memory and nothing here costs
// anything; on CUDA builds the host may not touch device memory, so every crossing is one of the calls below.
//
// A CPU build can prove that: with the environment variable BERT_HPC_GUARD_DEVICE_MEMORY=1 device memory is out of the
// host's reach (PROT_NONE) except while a kernel, a matrix product or an attention runs, and what these are handed must
// lie in device memory. A stray access is then a crash or an error in an ordinary test run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "bert_hpc/core/buffer.hpp"

namespace bert_hpc::core {

/// May the host read and write device memory itself? On CPU builds, unless it is guarded.
bool host_sees_device_memory();

/// Copies across the edge. They wait for the kernels before and for the copy. Where both addresses are one, nothing is
/// done.
void copy_to_host(const void* device, void* host, std::size_t bytes);
void copy_to_device(const void* host, void* device, std::size_t bytes);
/// In the order of kernels, without waiting: `host` (MemoryKind::host) stays as it is until the copy is done, which a
/// DeviceMark set behind it tells, or any wait for kernels.
void start_copy_to_device(const void* host, void* device, std::size_t bytes);
/// The same to `host`, where the bytes are after the next wait for kernels.
void start_copy_to_host(const void* device, void* host, std::size_t bytes);
/// Within device memory, in the order of kernels.
void copy_on_device(const void* from, void* to, std::size_t bytes);
void fill_on_device(void* device, unsigned char value, std::size_t bytes);

/// Is this a build whose kernels a GPU runs?
bool is_gpu_build();

/// CUDA builds: the stream of kernels, for libraries that take their turn among them. It may be the null stream, which
/// Kokkos takes by default; null elsewhere. DeviceRuntime sets it.
void* kernel_stream();
void set_kernel_stream(void* stream);

/// Kernels have run and what they wrote is there; for timing, as every copy to the host waits by itself.
void wait_for_kernels();

/// A place in the order of kernels and copies, for the host to wait until all before it is done. Nothing on CPU builds.
class DeviceMark {
 public:
  DeviceMark() = default;
  DeviceMark(const DeviceMark&) = delete;
  DeviceMark& operator=(const DeviceMark&) = delete;
  ~DeviceMark();
  void set();         ///< behind all that was started so far
  void wait() const;  ///< until all before the last set() is done; nothing where none was
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

/// Memory for the host to work in that stands for `device`: the same where the host sees it, else `aside`, which gets
/// its size. Nothing is copied; copy_to_device() completes it.
template <class T>
std::span<T> host_side(std::span<T> device, std::vector<T>& aside) {
  if (host_sees_device_memory()) return device;
  aside.resize(device.size());
  return aside;
}

/// The content of `device` for the host to read: in place where the host sees it, else copied to `aside`.
template <class T>
std::span<const T> on_host(std::span<const T> device, std::vector<T>& aside) {
  if (host_sees_device_memory()) return device;
  aside.resize(device.size());
  copy_to_host(device.data(), aside.data(), device.size_bytes());
  return aside;
}

/// An array that kernels write and the host reads, or the other way about: one memory where the host sees device
/// memory, else two.
template <class T>
class MirroredArray {
 public:
  MirroredArray() = default;
  explicit MirroredArray(std::int64_t count) : device_(count) {
    if (!host_sees_device_memory()) host_ = Buffer<T>(count, MemoryKind::host);
  }
  std::int64_t size() const { return device_.size(); }
  T* device() const { return device_.data(); }
  /// What the last to_host() brought, or what to_device() will take.
  T* host() const { return host_sees_device_memory() ? device_.data() : host_.data(); }

  /// The first `count` elements as kernels left them; waits for these.
  std::span<T> to_host(std::int64_t count) const {
    const std::span<T> all(host(), static_cast<std::size_t>(count));
    copy_to_host(device(), all.data(), all.size_bytes());
    return all;
  }
  /// The same without waiting: host() has them after the next wait for kernels.
  void start_to_host(std::int64_t count) const {
    start_copy_to_host(device(), host(), static_cast<std::size_t>(count) * sizeof(T));
  }
  /// Kernels from here on find the first `count` elements as the host has them now.
  void to_device(std::int64_t count) const {
    start_copy_to_device(host(), device(), static_cast<std::size_t>(count) * sizeof(T));
  }

 private:
  Buffer<T> device_, host_;
};

/// The host may use device memory itself while one of these lives: where kernels run as host code. Free unless device
/// memory is guarded.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Is BERT_HPC_GUARD_DEVICE_MEMORY set (CPU builds)?
bool device_memory_is_guarded();

/// Where device memory is guarded: throws Error(internal) that names `what` if `pointer` is neither null nor to memory
/// that kernels reach.
void require_device_memory(const void* pointer, const char* what);

/// The same for every address among the bytes of a kernel's body.
void require_device_operands(const void* body, std::size_t bytes, const char* kernel);

/// An address at which host libraries (MPI) reach the same memory at any time: itself unless device memory is guarded.
void* transport_address(const void* pointer);
template <class T>
T* transport_address(T* pointer) {
  return static_cast<T*>(transport_address(static_cast<const void*>(pointer)));
}

}  // namespace bert_hpc::core
