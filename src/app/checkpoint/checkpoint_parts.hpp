// Parts of a checkpoint that this rank saves, by its coordinates in the grid. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "app/engine/model_instance.hpp"
#include "bert_hpc/core/tensor_piece.hpp"
#include "bert_hpc/train/data_parallel.hpp"

namespace bert_hpc::app {

/// The parts of the arena that this rank has states of.
inline std::vector<core::ArenaRange> owned_ranges(const train::DataParallel& sums) {
  std::vector<core::ArenaRange> ranges;
  for (const train::OwnedRange& range : sums.owned()) ranges.push_back({range.begin, range.size});
  return ranges;
}

/// What this rank saves: what it owns; where every replica owns all, an equal share of it. Then, in the order of the
/// arena, an equal share of the frozen parameters.
inline std::vector<core::ArenaPiece> parts_to_save(const ModelInstance& model, const train::DataParallel& sums,
                                                   std::span<const core::WholeTensor> tensors) {
  std::vector<core::ArenaRange> ranges = owned_ranges(sums);
  const std::int64_t trainable = sums.plan().trainable, frozen = sums.plan().arena - trainable;
  const std::int64_t replicas = model.grid.data, d = model.coordinates.data;
  if (!sums.plan().shares_update()) {
    const std::int64_t first = trainable * d / replicas, last = trainable * (d + 1) / replicas;
    std::vector<core::ArenaRange> share;
    for (const core::ArenaRange& range : ranges) {
      const std::int64_t begin = std::max(first, range.begin), end = std::min(last, range.begin + range.size);
      if (begin < end) share.push_back({begin, end - begin});
    }
    ranges = std::move(share);
  }
  const std::int64_t first = trainable + frozen * d / replicas, last = trainable + frozen * (d + 1) / replicas;
  if (first < last) ranges.push_back({first, last - first});
  return core::pieces_to_save(model.parameters.slices(), tensors, ranges, model.coordinates.tensor, model.grid.tensor);
}

}  // namespace bert_hpc::app
