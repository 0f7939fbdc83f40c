// Sums of squares over flat ranges, in blocks, and what clipping makes of them.
#include "bert_hpc/ops/gradient_squares.hpp"

#include <vector>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

constexpr std::int64_t line = TouchedRows::line;

/// Σ x² over `count` elements, which marks[0] begins (or null).
template <class Element>
KOKKOS_INLINE_FUNCTION double block_squares(const kernel::RowTeam& team, const Element* x, std::int64_t count,
                                            const std::uint8_t* marks) {
  bool zero = marks != nullptr;
  for (std::int64_t l = 0; zero && l * line < count; ++l) zero = marks[l] == 0;
  if (zero) return 0.0;
  return team.sum<double>(count, [=](std::int64_t i) {
    const auto value = static_cast<double>(static_cast<float>(x[i]));
    return value * value;
  });
}

}  // namespace

void squared_norm_blocks(std::span<const float> x, std::span<double> partial, TouchedRows marks) {
  const std::int64_t count = static_cast<std::int64_t>(x.size());
  const std::int64_t blocks = kernel::divide_up(count, norm_block);
  core::require(static_cast<std::int64_t>(partial.size()) == blocks,
                "squared_norm_blocks: one partial sum per block of norm_block elements is needed");
  const float* in = x.data();
  double* out = partial.data();
  const std::uint8_t* const m = marks.marks;
  const double bytes = m == nullptr ? kernel::bytes_of<float>(count) : core::unknown_work;
  kernel::for_rows(
      {"bert_hpc::ops::squared_norm_blocks", bytes}, blocks,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t b) {
        const std::int64_t begin = b * norm_block, left = count - begin;
        const double sum =
            block_squares(team, in + begin, left < norm_block ? left : norm_block, m == nullptr ? m : m + begin / line);
        if (team.leads()) out[b] = sum;
      });
}

SquareRanges::SquareRanges(std::span<const SquareRange> ranges) : ranges_(static_cast<std::int64_t>(ranges.size())) {
  std::vector<Block> blocks;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    const std::size_t element = ranges[r].narrow_gradient != nullptr ? sizeof(core::Bf16) : sizeof(float);
    if (ranges[r].marks == nullptr) bytes_ += static_cast<double>(ranges[r].size) * static_cast<double>(element);
    for (std::int64_t begin = 0; begin < ranges[r].size; begin += norm_block) {
      blocks.push_back({static_cast<std::int64_t>(r), begin});
    }
  }
  blocks_ = core::Buffer<Block>(static_cast<std::int64_t>(blocks.size()));
  core::copy_to_device(ranges.data(), ranges_.data(), ranges.size_bytes());
  core::copy_to_device(blocks.data(), blocks_.data(), blocks.size() * sizeof(Block));
}

void SquareRanges::sum(std::span<double> partial) const {
  const SquareRange* const all = ranges_.data();
  const Block* const blocks = blocks_.data();
  double* const out = partial.data();
  kernel::for_rows(
      {"bert_hpc::ops::squared_norm_ranges", bytes_}, blocks_.size(),
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t b) {
        const Block block = blocks[b];
        const SquareRange r = all[block.range];
        const std::int64_t left = r.size - block.begin, count = left < norm_block ? left : norm_block;
        const std::uint8_t* const marks = r.marks == nullptr ? nullptr : r.marks + block.begin / line;
        const double sum = r.narrow_gradient != nullptr
                               ? block_squares(team, r.narrow_gradient + block.begin, count, marks)
                               : block_squares(team, r.gradient + block.begin, count, marks);
        if (team.leads()) out[r.first_block + block.begin / norm_block] = sum;
      });
}

void sum_and_clip(const ClippingSums& sums, double max_norm, double scale, double* squares, float* factor) {
  const double* const partial = sums.partial;
  const double* const losses = sums.losses;
  const std::int64_t micro_batches = sums.micro_batches;
  const double targets = sums.targets;
  kernel::sum_then(
      "bert_hpc::ops::sum_and_clip", sums.partials, KOKKOS_LAMBDA(std::int64_t i) { return partial[i]; },
      KOKKOS_LAMBDA(double sum) {
        const double norm = std::sqrt(sum) / scale;
        double loss = 0.0;
        for (std::int64_t m = 0; m < micro_batches; ++m) loss += losses[m];
        loss /= targets;
        squares[0] = sum;
        // x − x is NaN where x is not finite.
        factor[0] = clipping_factor(norm, max_norm, scale) + static_cast<float>((norm - norm) + (loss - loss));
      });
}

}  // namespace bert_hpc::ops
