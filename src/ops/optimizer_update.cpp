// Updates of flat parameter ranges: every array is read and written once.
#include "bert_hpc/ops/optimizer_update.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "adamw_element.hpp"
#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {

namespace {

void require_one_size(std::span<const float> value, std::span<const float> gradient,
                      std::span<const float> first_moment, std::span<const float> second_moment) {
  core::require(
      gradient.size() == value.size() && first_moment.size() == value.size() && second_moment.size() == value.size(),
      "adamw_update: values, gradients and moments differ in size");
}

constexpr std::int64_t line = GradientMarks::line;

/// Elements that one item of AdamwRanges takes: few enough on a GPU that a shard of some million elements keeps all of
/// it busy.
constexpr std::int64_t piece_elements = kernel::in_warps ? 512 : norm_block;

/// body.element<known_zero>(i) for i in [begin, end), which marks[0] begins: runs of lines of one kind, so that loops
/// are long.
template <class Body>
KOKKOS_INLINE_FUNCTION void for_marked_runs(std::int64_t begin, std::int64_t end, const std::uint8_t* marks,
                                            const Body& body) {
  for (std::int64_t next; begin < end; begin = next) {
    const bool zero = marks != nullptr && marks[begin / line] == 0;
    next = marks == nullptr ? end : begin + line;
    while (next < end && (marks[next / line] == 0) == zero) next += line;
    next = next < end ? next : end;
    if (zero) {
#pragma omp simd
      for (std::int64_t i = begin; i < next; ++i) body.template element<true>(i);
    } else {
#pragma omp simd
      for (std::int64_t i = begin; i < next; ++i) body.template element<false>(i);
    }
  }
}

/// body.element<known_zero>(i) for every i in [0, count): lines that are marked as zero go the short way. CPU items
/// gather neighbouring lines of one kind, so that the inner loops are long.
template <class Body>
void for_marked(const char* label, std::int64_t count, const std::uint8_t* marks, const Body& body) {
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

void clear(GradientMarks marks, std::int64_t count) {
  std::uint8_t* const m = marks.marks;
  if (m == nullptr) return;
  kernel::for_flat(
      "bert_hpc::ops::clear_marks", kernel::divide_up(count, line), KOKKOS_LAMBDA(std::int64_t i) { m[i] = 0; });
}

/// The elements [0, count) of a piece that `marks` are of.
template <class Body>
KOKKOS_INLINE_FUNCTION void update_piece(const kernel::RowTeam& team, std::int64_t count, const std::uint8_t* marks,
                                         const Body& body) {
  if constexpr (kernel::in_warps) {
    update_octets(team.lane, count, marks, body);
  } else {
    for_marked_runs(0, count, marks, body);
  }
}

}  // namespace

void mark_rows(GradientMarks marks, std::int64_t columns, const std::int32_t* rows, std::int64_t count) {
  std::uint8_t* const m = marks.marks;
  if (m == nullptr) return;
  const std::int64_t lines = columns / line;
  kernel::for_elements(
      "bert_hpc::ops::mark_rows", count, lines,
      KOKKOS_LAMBDA(std::int64_t r, std::int64_t j) { m[rows[r] * lines + j] = 1; });
}

void mark_first_rows(GradientMarks marks, std::int64_t columns, std::int64_t count) {
  std::uint8_t* const m = marks.marks;
  if (m == nullptr) return;
  kernel::for_flat(
      "bert_hpc::ops::mark_first_rows", count * columns / line, KOKKOS_LAMBDA(std::int64_t i) { m[i] = 1; });
}

void adamw_update(const AdamwStep& step, std::span<float> value, std::span<float> gradient,
                  std::span<float> first_moment, std::span<float> second_moment, GradientMarks marks) {
  require_one_size(value, gradient, first_moment, second_moment);
  const auto count = static_cast<std::int64_t>(value.size());
  for_marked("bert_hpc::ops::adamw_update", count, marks.marks,
             UpdateElement<void>{Adamw(step), value.data(), gradient.data(), first_moment.data(), second_moment.data(),
                                 nullptr});
  clear(marks, count);
}

AdamwRanges::AdamwRanges(std::span<const AdamwRange> ranges, core::DataType copies)
    : copies_(copies), ranges_(static_cast<std::int64_t>(ranges.size())), first_piece_(1, 0) {
  std::vector<Piece> pieces;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    core::require(ranges[r].narrow_gradient == nullptr || (!ranges[r].clears && ranges[r].marks == nullptr),
                  "adamw_update: a gradient in 16 bits is neither cleared nor marked");
    for (std::int64_t begin = 0; begin < ranges[r].size; begin += piece_elements) {
      pieces.push_back({static_cast<std::int64_t>(r), begin});
    }
    first_piece_.push_back(static_cast<std::int64_t>(pieces.size()));
  }
  pieces_ = core::Buffer<Piece>(static_cast<std::int64_t>(pieces.size()));
  core::copy_to_device(ranges.data(), ranges_.data(), ranges.size_bytes());
  core::copy_to_device(pieces.data(), pieces_.data(), pieces.size() * sizeof(Piece));
}

template <class Copy, bool clears, class Gradient>
KOKKOS_INLINE_FUNCTION void update_range(const kernel::RowTeam& team, std::int64_t count, const std::uint8_t* marks,
                                         const Adamw& update, const AdamwRange& r, Gradient* gradient,
                                         std::int64_t begin) {
  const UpdateElement<void, clears, Gradient> plain{
      update, r.value + begin, gradient + begin, r.first_moment + begin, r.second_moment + begin, nullptr};
  if (r.copy == nullptr) return update_piece(team, count, marks, plain);
  auto* const copy = reinterpret_cast<Copy*>(r.copy) + begin;
  update_piece(team, count, marks,
               UpdateElement<Copy, clears, Gradient>{update, plain.w, plain.g, plain.m, plain.v, copy});
}

template <class Copy>
void update_pieces(const AdamwStep& step, const AdamwRange* all, const AdamwRanges::Piece* pieces,
                   std::int64_t piece_count) {
  AdamwStep undecayed = step;
  undecayed.weight_decay = 0;
  const Adamw with(step), without(undecayed);
  const float* const device_scale = step.device_scale;
  kernel::for_rows(
      "bert_hpc::ops::adamw_update_ranges", piece_count, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t p) {
        const AdamwRanges::Piece piece = pieces[p];
        const AdamwRange r = all[piece.range];
        const std::int64_t left = r.size - piece.begin, count = left < piece_elements ? left : piece_elements;
        Adamw update = r.decay ? with : without;
        if (device_scale != nullptr) update.gradient_scale = *device_scale;
        std::uint8_t* const marks = r.marks == nullptr ? nullptr : r.marks + piece.begin / line;
        if (update.gradient_scale != update.gradient_scale) {  // NaN: skipped
          if (r.clears) update_piece(team, count, marks, ZeroElement{r.gradient + piece.begin});
        } else if (r.clears) {
          update_range<Copy, true>(team, count, marks, update, r, r.gradient, piece.begin);
        } else if (r.narrow_gradient != nullptr) {
          update_range<Copy, false>(team, count, nullptr, update, r, r.narrow_gradient, piece.begin);
        } else {
          update_range<Copy, false>(team, count, nullptr, update, r, r.gradient, piece.begin);
        }
        if (marks == nullptr) return;
        team.meet();  // all have read them
        team.each(kernel::divide_up(count, line), [&](std::int64_t l) { marks[l] = 0; });
      });
}

void AdamwRanges::update(const AdamwStep& step, std::size_t first, std::size_t last) const {
  core::require(first <= last && last < first_piece_.size(), "adamw_update: ranges that there are not");
  const auto run = copies_ == core::DataType::fp16 ? update_pieces<core::Fp16> : update_pieces<core::Bf16>;
  run(step, ranges_.data(), pieces_.data() + first_piece_[first], first_piece_[last] - first_piece_[first]);
}

void adamw_update_on_host(const AdamwStep& step, std::span<float> value, std::span<float> gradient,
                          std::span<float> first_moment, std::span<float> second_moment) {
  if constexpr (!kernel::on_gpu) {
    adamw_update(step, value, gradient, first_moment, second_moment);
  } else {
    require_one_size(value, gradient, first_moment, second_moment);
    const Adamw update(step);
    Kokkos::parallel_for(
        "bert_hpc::ops::adamw_update_on_host",
        Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::size_t>>(0, value.size()),
        [=](std::size_t i) {
          update(value[i], gradient[i], first_moment[i], second_moment[i]);
          gradient[i] = 0.0f;
        });
  }
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
std::uint64_t hash_of_bits(std::span<const float> x, const core::MirroredArray<std::uint64_t>& partial) {
  const std::int64_t count = static_cast<std::int64_t>(x.size());
  const std::int64_t blocks = kernel::divide_up(count, norm_block);
  core::require(partial.size() >= blocks, "hash_of_bits: one partial sum per block of norm_block elements is needed");
  const float* in = x.data();
  std::uint64_t* out = partial.device();
  kernel::for_rows(
      "bert_hpc::ops::hash_of_bits", blocks, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t b) {
        const std::int64_t begin = b * norm_block;
        const std::int64_t end = begin + norm_block < count ? begin + norm_block : count;
        const std::uint64_t sum = team.sum<std::uint64_t>(end - begin, [=](std::int64_t i) {
          std::uint32_t bits;
          std::memcpy(&bits, in + begin + i, sizeof bits);
          std::uint64_t z = bits + static_cast<std::uint64_t>(begin + i + 1) * 0x9E3779B97F4A7C15ull;
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

// y += x
void accumulate(std::span<const float> source, std::span<float> destination) {
  core::require(source.size() == destination.size(), "accumulate: ranges differ in size");
  const float* in = source.data();
  float* out = destination.data();
  kernel::for_flat(
      "bert_hpc::ops::accumulate", static_cast<std::int64_t>(source.size()),
      KOKKOS_LAMBDA(std::int64_t i) { out[i] += in[i]; });
}

// y = x
void copy(std::span<const float> source, std::span<float> destination) {
  core::require(source.size() == destination.size(), "copy: ranges differ in size");
  const float* in = source.data();
  float* out = destination.data();
  kernel::for_flat(
      "bert_hpc::ops::copy", static_cast<std::int64_t>(source.size()),
      KOKKOS_LAMBDA(std::int64_t i) { out[i] = in[i]; });
}

// x = 0
void set_zero(std::span<float> x, GradientMarks marks) {
  const auto count = static_cast<std::int64_t>(x.size());
  for_marked("bert_hpc::ops::set_zero", count, marks.marks, ZeroElement{x.data()});
  clear(marks, count);
}

}  // namespace bert_hpc::ops
