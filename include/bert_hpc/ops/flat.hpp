// Operations on flat ranges of parameters, gradients and optimizer states.
#pragma once

#include <cstdint>
#include <span>

#include "bert_hpc/core/cache_line.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/shard.hpp"

namespace bert_hpc::ops {

/// Norms are summed in fixed blocks of this many elements, so that their bits do not depend on threads or ranks.
inline constexpr std::int64_t norm_block = 4096;

/// Known zeros of a gradient. A batch touches few rows of a large embedding table; all else of its gradient is zero and
/// is better not read, added up, sent or cleared again. A mark stands for a line of `line` elements, counted from the
/// begin of the range: 0 says that the line holds zeros only, 1 nothing. A range without marks is read in full.
struct TouchedRows {
  static constexpr std::int64_t line = core::floats_of_cache_line;
  std::uint8_t* marks = nullptr;  ///< (ceil(size / line)), or null
};

/// Marks lines [begin, end) / line of every row listed: rows (count) of a table with this many columns, a multiple of
/// `line`, that begins at the begin of the range.
void mark_rows(TouchedRows marks, std::int64_t columns, const std::int32_t* rows, std::int64_t count);
/// Marks rows [0, count).
void mark_first_rows(TouchedRows marks, std::int64_t columns, std::int64_t count);

/// Between kernels' memory and the host's, of one size, with all of the host's threads where both are its own. They
/// wait for the kernels before.
void copy_to_host(std::span<const float> device, std::span<float> host);
void copy_to_device(std::span<const float> host, std::span<float> device);

/// A sum over the elements of a mix of each one's bits and its index: any one changed bit changes it. `partial` (at
/// least ceil(x.size() / norm_block)) is scratch. Waits for the kernels.
std::uint64_t hash_of_bits(std::span<const float> x, const core::MirroredArray<std::uint64_t>& partial);
/// The same of a shard, by the elements' indices in the whole: the hashes of all shards add up to that of the whole.
std::uint64_t hash_of_bits(std::span<const float> x, const core::ShardRuns& runs,
                           const core::MirroredArray<std::uint64_t>& partial);

/// destination += source.
void accumulate(std::span<const float> source, std::span<float> destination);

/// destination = source.
void copy(std::span<const float> source, std::span<float> destination);

/// x = 0, its marks too.
void set_zero(std::span<float> x, TouchedRows marks = {});

}  // namespace bert_hpc::ops
