// Operands of kernels in tests. A test::Vector is an array that both the test and kernels use: data() is its address in
// device memory, elements are accessed in host memory, and the two memories are kept equal. Before each device call
// (core/call_count.hpp) the arrays that the test changed are copied to the device; the first access to an element after
// a device call copies the array back, which waits for the kernels. On builds whose host sees device memory there is
// one memory.
//
// A pointer to an element stays valid for host accesses until the next device call. support/device_calls.hpp observes
// the calls; every test program installs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "support/device_calls.hpp"

namespace bert_hpc::test {

/// Host memory with the alignment of device memory: on CPU builds kernels compute in it.
template <class T>
struct HostMemory {
  using value_type = T;
  HostMemory() = default;
  template <class U>
  HostMemory(const HostMemory<U>&) {}  // NOLINT: allocators convert
  T* allocate(std::size_t count) {
    if (!bert_hpc::core::host_sees_device_memory()) return std::allocator<T>().allocate(count);
    return static_cast<T*>(bert_hpc::core::allocate_memory(count * sizeof(T), bert_hpc::core::MemoryKind::host));
  }
  void deallocate(T* pointer, std::size_t count) {
    if (!bert_hpc::core::host_sees_device_memory()) return std::allocator<T>().deallocate(pointer, count);
    bert_hpc::core::free_memory(pointer, count * sizeof(T), bert_hpc::core::MemoryKind::host);
  }
  bool operator==(const HostMemory&) const { return true; }
};

/// RAII: kernels are emulated on the host, so Vector::data() is an address in host memory.
class HostOperands {
 public:
  HostOperands() { ++DeviceCalls::of_thread().emulated; }
  ~HostOperands() { --DeviceCalls::of_thread().emulated; }
  HostOperands(const HostOperands&) = delete;
  HostOperands& operator=(const HostOperands&) = delete;
};

template <class T>
class Vector : DeviceCalls::Array {
  using Host = std::vector<T, HostMemory<T>>;

 public:
  using value_type = T;

  Vector() = default;
  explicit Vector(std::size_t count, const T& value = T()) : host_(count, value) {}
  Vector(std::initializer_list<T> values) : host_(values) {}
  template <std::input_iterator I>
  Vector(I begin, I end) : host_(begin, end) {}
  Vector(const Vector& other) : host_(other.read()) {}
  Vector& operator=(const Vector& other) {
    if (this != &other) change() = other.read();
    return *this;
  }
  /// Both memories keep their addresses.
  Vector(Vector&& other) noexcept { swap(other); }
  Vector& operator=(Vector&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Vector() { DeviceCalls::of_thread().forget(*this); }

  /// Address for kernels. The kernels of a vector that is not const may write to it.
  T* data() {
    if (DeviceCalls::of_thread().emulated > 0) return host();
    written_ = true;
    return on_device();
  }
  const T* data() const { return DeviceCalls::of_thread().emulated > 0 ? host() : on_device(); }
  /// Elements for the host.
  T* host() { return change().data(); }
  const T* host() const { return read().data(); }

  T& operator[](std::size_t i) { return change()[i]; }
  const T& operator[](std::size_t i) const { return read()[i]; }
  T& front() { return change().front(); }
  T& back() { return change().back(); }
  const T& front() const { return read().front(); }
  const T& back() const { return read().back(); }
  auto begin() { return change().begin(); }
  auto end() { return change().end(); }
  auto begin() const { return read().begin(); }
  auto end() const { return read().end(); }
  std::size_t size() const { return host_.size(); }
  bool empty() const { return host_.empty(); }
  void push_back(const T& value) { change().push_back(value); }
  void clear() { change().clear(); }
  void resize(std::size_t count, const T& value = T()) { change().resize(count, value); }
  void assign(std::size_t count, const T& value) { change().assign(count, value); }
  template <std::input_iterator I>
  void assign(I begin, I end) {
    change().assign(begin, end);
  }
  bool operator==(const Vector& other) const { return read() == other.read(); }

  /// Copies what the test changed. For DeviceCalls.
  void to_device() override {
    changed_ = false;
    if (device_.size() == std::ssize(host_)) {
      bert_hpc::core::copy_to_device(host_.data(), device_.data(), host_.size() * sizeof(T));
    }
  }

 private:
  static bool one_memory() {
    static const bool one = bert_hpc::core::host_sees_device_memory();
    return one;
  }

  void swap(Vector& other) noexcept {
    std::swap(host_, other.host_);
    std::swap(device_, other.device_);
    std::swap(seen_, other.seen_);
    std::swap(written_, other.written_);
    DeviceCalls::of_thread().forget(*this);
    DeviceCalls::of_thread().forget(other);
    std::swap(changed_, other.changed_);
    if (changed_) DeviceCalls::of_thread().enter(*this);
    if (other.changed_) DeviceCalls::of_thread().enter(other);
  }

  T* on_device() const {
    if (one_memory()) return const_cast<T*>(host_.data());
    if (device_.size() != std::ssize(host_)) {
      device_ = bert_hpc::core::Buffer<T>(std::ssize(host_));
      const DeviceCalls::Unobserved copy;
      bert_hpc::core::copy_to_device(host_.data(), device_.data(), host_.size() * sizeof(T));
      seen_ = DeviceCalls::of_thread().count();
    }
    return device_.data();
  }
  /// Elements as the last device call left them.
  const Host& read() const {
    if (one_memory() || !written_ || device_.size() != std::ssize(host_)) return host_;
    const std::uint64_t calls = DeviceCalls::of_thread().count();
    if (seen_ != calls && !changed_) {
      const DeviceCalls::Unobserved copy;
      bert_hpc::core::copy_to_host(device_.data(), host_.data(), host_.size() * sizeof(T));
    }
    seen_ = calls;
    return host_;
  }
  Host& change() {
    read();
    if (device_.data() != nullptr && !changed_) {
      changed_ = true;
      DeviceCalls::of_thread().enter(*this);
    }
    return host_;
  }

  mutable Host host_;
  mutable bert_hpc::core::Buffer<T> device_;  // empty until a kernel needs it
  mutable std::uint64_t seen_ = 0;            // device calls before host_ was last equal to device_
  bool written_ = false;                      // whether kernels may have written since
  bool changed_ = false;                      // whether the host's elements are newer
};

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

/// Memory for a core::ParameterStore whose arenas the test itself reads and writes; must outlive the store. It is
/// pinned host memory on CUDA builds, so every device call waits for its kernels as long as such arenas exist.
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
  DeviceCalls::Waiting waiting_;
  std::deque<bert_hpc::core::Buffer<std::byte>> taken_;
};

}  // namespace bert_hpc::test
