// Buffer: zero-initialised memory, normally owned, either where kernels run (host memory on CPU builds, device memory
// on CUDA builds) or in host memory for the host's own work. Large host buffers are aligned to and advised for huge
// pages: with 2 MiB pages the arenas of a base-size model need about 500 address translations instead of 250,000.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace bert_hpc::core {

enum class MemoryKind {
  device,  ///< where kernels run
  host,    ///< host memory that kernels and copies can also access (pinned on CUDA builds)
};

/// Allocates `bytes` of zeroed memory, aligned to at least 64 bytes. Throws Error(internal) with the size on failure.
void* allocate_memory(std::size_t bytes, MemoryKind kind);
void free_memory(void* pointer, std::size_t bytes, MemoryKind kind) noexcept;

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t count, MemoryKind kind = MemoryKind::device)
      : data_(static_cast<T*>(allocate_memory(static_cast<std::size_t>(count) * sizeof(T), kind))),
        count_(count),
        kind_(kind) {}
  /// Wraps memory that the buffer does not own. `memory` must outlive the buffer and meet the constructor's guarantees.
  static Buffer borrow(T* memory, std::int64_t count) {
    Buffer buffer;
    buffer.data_ = memory;
    buffer.count_ = count;
    buffer.borrowed_ = true;
    return buffer;
  }
  ~Buffer() {
    if (!borrowed_) free_memory(data_, static_cast<std::size_t>(count_) * sizeof(T), kind_);
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)),
        kind_(other.kind_),
        borrowed_(other.borrowed_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(kind_, other.kind_);
    std::swap(borrowed_, other.borrowed_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return data_; }
  std::int64_t size() const { return count_; }
  /// Only for host memory. Kernels and the copies of core/device_memory.hpp access device memory.
  T& operator[](std::int64_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  std::int64_t count_ = 0;
  MemoryKind kind_ = MemoryKind::device;
  bool borrowed_ = false;
};

}  // namespace bert_hpc::core
