// Kernel launches: one body per kernel, mapped to each kind of device. On a CPU a work item is a row (or a strip of
// columns) with a vectorized inner loop. On a GPU it is one element, so that neighbouring threads access neighbouring
// memory. Results do not depend on the mapping of items to threads, as no two items write the same element. Only kernel
// files include this header, because it needs Kokkos.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <string>

#include "bert_hpc/core/device_memory.hpp"
#include "launch_scope.hpp"

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
#define BERT_HPC_KERNELS_ON_GPU 1
#else
#define BERT_HPC_KERNELS_ON_GPU 0
#endif

namespace bert_hpc::ops::kernel {

inline constexpr bool on_gpu = BERT_HPC_KERNELS_ON_GPU != 0;

/// Columns that one work item of a sum over rows owns.
inline constexpr std::int64_t strip_columns = on_gpu ? 1 : 32;

/// Number of rows summed before the partial sum is added to the total. It is constant, so that bits do not depend on
/// threads, and small, so that rounding errors grow with rows / block + block instead of rows.
inline constexpr std::int64_t sum_block_rows = 64;

/// Number of columns whose dropout bits one work item holds at a time.
inline constexpr std::int64_t dropout_columns = on_gpu ? 8 : 256;

/// Elements of a flat range that one work item owns.
inline constexpr std::int64_t flat_block = on_gpu ? 1 : 4096;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

using Range = Kokkos::RangePolicy<Kokkos::IndexType<std::int64_t>>;
using UnevenRange = Kokkos::RangePolicy<Kokkos::IndexType<std::int64_t>, Kokkos::Schedule<Kokkos::Dynamic>>;

/// A parallel loop of Kokkos without heap allocation. Each loop body has its own type, so its label becomes a string
/// only once. GCC's OpenMP allocates a team of one thread on each launch (it keeps only larger teams), so one thread
/// runs the loop directly unless a profiling tool is attached.
template <class Policy, class Body>
void run(const Label& label, const Policy& policy, const Body& body) {
  if constexpr (!on_gpu) {
    if (Kokkos::DefaultExecutionSpace().concurrency() == 1 && !Kokkos::Tools::profileLibraryLoaded()) {
      const LaunchScope launched(label);
      for (auto i = policy.begin(); i < policy.end(); ++i) body(i);
      return;
    }
  }
  static const std::string text(label.name);
  const LaunchScope launched(label);
  Kokkos::parallel_for(text, policy, body);
  launched.check();  // Kokkos does not check that the kernel started
}

/// Checks the words of a body with the guard of device memory. Padding is cleared first, as it may hold old addresses.
template <class Body>
void require_on_device(const Body& body, const char* label) {
  Body copy(body);
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&copy);
#endif
#endif
  core::require_device_operands(&copy, sizeof copy, label);
}

/// Launches a loop whose body is copied bytewise to the device, with addresses of device memory.
template <class Policy, class Body>
void launch(const Label& label, const Policy& policy, const Body& body) {
  if constexpr (!on_gpu) {
    const core::DeviceAccess access;
    if (core::device_memory_is_guarded()) require_on_device(body, label.name);
    run(label, policy, body);
  } else {
    run(label, policy, body);
  }
}

/// body(i) for i in [0, count), for items of similar cost.
template <class Body>
void for_items(const Label& label, std::int64_t count, const Body& body) {
  if (count > 0) launch(label, Range(0, count), body);
}

/// body(i) for i in [0, count), for items of very different cost, the longest first.
template <class Body>
void for_uneven_items(const Label& label, std::int64_t count, const Body& body) {
  if (count > 0) launch(label, UnevenRange(0, count, Kokkos::ChunkSize(on_gpu ? 128 : 4)), body);
}

/// body(row, column) for every element; elements are independent.
template <class Body>
void for_elements(const Label& label, std::int64_t rows, std::int64_t columns, const Body& body) {
#if BERT_HPC_KERNELS_ON_GPU
  for_items(
      label, rows * columns, KOKKOS_LAMBDA(std::int64_t i) { body(i / columns, i % columns); });
#else
  for_items(
      label, rows, KOKKOS_LAMBDA(std::int64_t i) {
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) body(i, j);
      });
#endif
}

/// body(i) for every i in [0, count) in flat ranges; elements are independent.
template <class Body>
void for_flat(const Label& label, std::int64_t count, const Body& body) {
  for_items(
      label, divide_up(count, flat_block), KOKKOS_LAMBDA(std::int64_t block) {
        const std::int64_t begin = block * flat_block;
        const std::int64_t end = begin + flat_block < count ? begin + flat_block : count;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) body(i);
      });
}

}  // namespace bert_hpc::ops::kernel
