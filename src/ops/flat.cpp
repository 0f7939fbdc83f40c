#include "bert_hpc/ops/flat.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"
#include "optimizers/update_element.hpp"

namespace bert_hpc::ops {

namespace {

constexpr std::int64_t line = TouchedRows::line;

/// body.element<known_zero>(i) for every i in [0, count): lines that are marked as zero go the short way. CPU items
/// gather neighbouring lines of one kind, so that the inner loops are long.
template <class Body>
void for_marked(const kernel::Label& label, std::int64_t count, const std::uint8_t* marks, const Body& body) {
#if BERT_HPC_KERNELS_ON_GPU
  kernel::for_items(
      label, count, KOKKOS_LAMBDA(std::int64_t i) {
        if (marks != nullptr && marks[i / line] == 0) {
          body.template element<true>(i);
        } else {
          body.template element<false>(i);
        }
      });
#else
  kernel::for_items(label, kernel::divide_up(count, kernel::flat_block), [=](std::int64_t block) {
    const std::int64_t begin = block * kernel::flat_block;
    for_marked_runs(begin, std::min(count, begin + kernel::flat_block), marks, body);
  });
#endif
}

void clear(TouchedRows marks, std::int64_t count) {
  std::uint8_t* const m = marks.marks;
  if (m == nullptr) return;
  kernel::for_flat(
      "bert_hpc::ops::clear_marks", kernel::divide_up(count, line), KOKKOS_LAMBDA(std::int64_t i) { m[i] = 0; });
}

}  // namespace

void mark_rows(TouchedRows marks, std::int64_t columns, const std::int32_t* rows, std::int64_t count) {
  std::uint8_t* const m = marks.marks;
  if (m == nullptr) return;
  const std::int64_t lines = columns / line;
  kernel::for_elements(
      "bert_hpc::ops::mark_rows", count, lines,
      KOKKOS_LAMBDA(std::int64_t r, std::int64_t j) { m[rows[r] * lines + j] = 1; });
}

void mark_first_rows(TouchedRows marks, std::int64_t columns, std::int64_t count) {
  std::uint8_t* const m = marks.marks;
  if (m == nullptr) return;
  kernel::for_flat(
      "bert_hpc::ops::mark_first_rows", count * columns / line, KOKKOS_LAMBDA(std::int64_t i) { m[i] = 1; });
}

namespace {

template <class T>
using DeviceArray = Kokkos::View<T*, Kokkos::DefaultExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
template <class T>
using HostArray = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

}  // namespace

void copy_to_host(std::span<const float> device, std::span<float> host) {
  core::require(device.size() == host.size(), "copy_to_host: ranges differ in size");
  // Waits for the kernels alone. Kokkos would wait for whatever the device does, the sums of other ranges too.
  if constexpr (kernel::on_gpu) return core::copy_to_host(device, host);
  core::require_device_memory(device.data(), "copy_to_host");
  const core::DeviceAccess access;
  Kokkos::deep_copy(HostArray<float>(host.data(), host.size()), DeviceArray<const float>(device.data(), device.size()));
}

void copy_to_device(std::span<const float> host, std::span<float> device) {
  core::require(device.size() == host.size(), "copy_to_device: ranges differ in size");
  if constexpr (kernel::on_gpu) return core::copy_to_device(host, device);
  core::require_device_memory(device.data(), "copy_to_device");
  const core::DeviceAccess access;
  Kokkos::deep_copy(DeviceArray<float>(device.data(), device.size()), HostArray<const float>(host.data(), host.size()));
}

// Σ mix(bits_i + i · golden ratio), with the finalizer of splitmix64 (Steele et al. 2014), a bijection
std::uint64_t hash_of_bits(std::span<const float> x, const core::ShardRuns& runs,
                           const core::MirroredArray<std::uint64_t>& partial) {
  const std::int64_t count = static_cast<std::int64_t>(x.size());
  const std::int64_t blocks = kernel::divide_up(count, norm_block);
  core::require(partial.size() >= blocks, "hash_of_bits: one partial sum per block of norm_block elements is needed");
  const float* in = x.data();
  std::uint64_t* out = partial.device();
  const core::ShardRuns at = runs;
  kernel::for_rows(
      {"bert_hpc::ops::hash_of_bits", kernel::bytes_of<float>(count)}, blocks,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t b) {
        const std::int64_t begin = b * norm_block;
        const std::int64_t end = begin + norm_block < count ? begin + norm_block : count;
        const std::uint64_t sum = team.sum<std::uint64_t>(end - begin, [=](std::int64_t i) {
          std::uint32_t bits;
          std::memcpy(&bits, in + begin + i, sizeof bits);
          std::uint64_t z = bits + static_cast<std::uint64_t>(at.index(begin + i) + 1) * 0x9E3779B97F4A7C15ull;
          z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
          z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
          return z ^ (z >> 31);
        });
        if (team.leads()) out[b] = sum;
      });
  std::uint64_t hash = 0;
  for (const std::uint64_t part : partial.to_host(blocks)) hash += part;
  return hash;
}

std::uint64_t hash_of_bits(std::span<const float> x, const core::MirroredArray<std::uint64_t>& partial) {
  return hash_of_bits(x, {.count = 1, .length = static_cast<std::int64_t>(x.size())}, partial);
}

// y += x
void accumulate(std::span<const float> source, std::span<float> destination) {
  core::require(source.size() == destination.size(), "accumulate: ranges differ in size");
  const float* in = source.data();
  float* out = destination.data();
  kernel::for_flat(
      {"bert_hpc::ops::accumulate", kernel::bytes_of<float, float, float>(std::ssize(source))},
      static_cast<std::int64_t>(source.size()), KOKKOS_LAMBDA(std::int64_t i) { out[i] += in[i]; });
}

// y = x
void copy(std::span<const float> source, std::span<float> destination) {
  core::require(source.size() == destination.size(), "copy: ranges differ in size");
  const float* in = source.data();
  float* out = destination.data();
  kernel::for_flat(
      {"bert_hpc::ops::copy", kernel::bytes_of<float, float>(std::ssize(source))},
      static_cast<std::int64_t>(source.size()), KOKKOS_LAMBDA(std::int64_t i) { out[i] = in[i]; });
}

// x = 0
void set_zero(std::span<float> x, TouchedRows marks) {
  const auto count = static_cast<std::int64_t>(x.size());
  // How many lines are known to be zero is known on the device alone.
  const double bytes = marks.marks == nullptr ? kernel::bytes_of<float>(count) : core::unknown_work;
  for_marked({"bert_hpc::ops::set_zero", bytes}, count, marks.marks, ZeroElement{x.data()});
  clear(marks, count);
}

}  // namespace bert_hpc::ops
