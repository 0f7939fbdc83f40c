// A copy of a micro-batch in device memory, as in training: timed kernels must not read host memory, which a GPU
// reaches only over PCIe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/micro_batch.hpp"

namespace bert_hpc::test {

class DeviceBatch {
 public:
  /// Copies every array of `host`, which must be readable by the host.
  explicit DeviceBatch(const core::MicroBatch& host) : view_(host) {
    core::visit_arrays(view_, [this]<class T>(const T*& array, std::int64_t count) { copy(array, count); });
  }

  const core::MicroBatch& view() const { return view_; }

 private:
  template <class T>
  void copy(const T*& array, std::int64_t count) {
    if (array == nullptr) return;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    memory_.emplace_back(static_cast<std::int64_t>(bytes));
    core::copy_to_device(array, memory_.back().data(), bytes);
    array = reinterpret_cast<const T*>(memory_.back().data());
  }

  std::deque<core::Buffer<std::byte>> memory_;
  core::MicroBatch view_;
};

}  // namespace bert_hpc::test
