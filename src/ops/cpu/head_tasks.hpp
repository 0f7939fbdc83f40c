// Tasks of the CPU's attention. Threads take tasks of (sequence, head) from a counter, longest sequences first if a
// batch is ordered by length. A task writes only its own results and computes the same on any thread, so results depend
// neither on the number of threads nor on the other sequences of a batch.
#pragma once

#include <algorithm>
#include <atomic>

#include "../kernel.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/attention.hpp"

namespace bert_hpc::ops::cpu {

/// One operand of a task: the rows of a sequence and the columns of a head.
template <class Address>
core::BasicMatrix<Address> part_of(const core::BasicMatrix<Address>& all, const TokenRows& rows, std::int64_t sequence,
                                   const AttentionExtents& extents, std::int64_t head) {
  const std::int64_t begin = rows.offsets[sequence], count = rows.offsets[sequence + 1] - begin;
  return all.row_range(begin, count).column_range(head * extents.head_dim, extents.head_dim);
}

/// Throws Error(internal) if q is not of this type; checks the guard of device memory for all operands of forward.
inline void require_operands(const AttentionInputs& in, const AttentionResults& results, core::DataType type) {
  core::require(in.q.type == type, "attention: not made for operands of this type");
  for (const void* operand :
       {in.q.data, in.k.data, in.v.data, static_cast<const void*>(results.out.data),
        static_cast<const void*>(results.log_sum_exp.data), static_cast<const void*>(in.queries.offsets),
        static_cast<const void*>(in.keys.offsets), static_cast<const void*>(in.queries.position),
        static_cast<const void*>(in.dropout.sample), static_cast<const void*>(in.real_keys),
        static_cast<const void*>(in.bias.table.data), static_cast<const void*>(in.bias.bucket), in.relative.keys.data,
        in.relative.queries.data, static_cast<const void*>(in.relative.distances.bucket)}) {
    core::require_device_memory(operand, "attention");
  }
}

/// The same for what backward reads and writes beside them.
inline void require_gradients(const ConstMatrix& d_out, const AttentionGradients& gradients) {
  for (const ConstMatrix& gradient :
       {d_out, ConstMatrix(gradients.d_q), ConstMatrix(gradients.d_k), ConstMatrix(gradients.d_v)}) {
    core::require_device_memory(gradient.data, "attention");
  }
  for (const float* sums : {gradients.d_bias.data, gradients.d_relative_keys.data, gradients.d_relative_queries.data}) {
    core::require_device_memory(sums, "attention");
  }
}

/// Scratch of the threads, and the loop over tasks.
class HeadTasks {
 public:
  /// Provides so many floats of scratch, aligned to 64 bytes, for each thread. Returns the bytes held.
  std::int64_t reserve(std::int64_t floats) {
    const std::int64_t needed = (floats + 1023) / 1024 * 1024 + 16;
    const std::int64_t workers = Kokkos::DefaultHostExecutionSpace().concurrency();
    if (needed > worker_floats_ || workers > workers_) {
      worker_floats_ = std::max(needed, worker_floats_);
      workers_ = std::max(workers, workers_);
      scratch_ = core::Buffer<float>();  // free the old memory before allocating the new
      scratch_ = core::Buffer<float>(worker_floats_ * workers_, core::MemoryKind::host);
    }
    return scratch_.size() * static_cast<std::int64_t>(sizeof(float));
  }

  /// Calls run(sequence, head, scratch) for every pair, with one work item per thread, which takes pairs until none is
  /// left. A task needs so many floats.
  template <class Run>
  void for_all(const kernel::Label& label, const AttentionExtents& extents, std::int64_t floats, const Run& run) {
    core::require(floats <= worker_floats_, "attention: sequences are longer than reserve() planned");
    const std::int64_t tasks = extents.sequences * extents.heads;
    std::atomic<std::int64_t> next{0};
    const std::int64_t workers = std::min<std::int64_t>(workers_, tasks);
    using HostRange = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>;
    if (workers == 0) return;
    const core::DeviceAccess access;
    kernel::run(label, HostRange(0, workers), [&](std::int64_t worker) {
      float* scratch = scratch_.data() + worker * worker_floats_;
      for (std::int64_t t; (t = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
        const std::int64_t from_the_end = tasks - 1 - t;
        run(from_the_end / extents.heads, from_the_end % extents.heads, scratch);
      }
    });
  }

 private:
  core::Buffer<float> scratch_;  // (workers, worker_floats)
  std::int64_t workers_ = 0, worker_floats_ = 0;
};

}  // namespace bert_hpc::ops::cpu
