// Which numbers of a checkpoint are whose, on this rank's place in the grid. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/app/engine/model_instance.hpp"
#include "bert_hpc/core/tensor_piece.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/ops/update_rule.hpp"
#include "bert_hpc/train/data_parallel.hpp"

namespace bert_hpc::app {

/// The optimizer keeps states of the owned ranges, one after the other: where those of an element of the arena are.
class StatePlaces {
 public:
  explicit StatePlaces(std::span<const train::OwnedRange> owned) : owned_(owned) {
    std::int64_t before = 0;
    for (const train::OwnedRange& range : owned) {
      before_.push_back(before);
      before += range.size;
    }
  }
  std::size_t of(std::int64_t arena) const {
    const auto after =
        std::upper_bound(owned_.begin(), owned_.end(), arena,
                         [](std::int64_t at, const train::OwnedRange& range) { return at < range.begin; });
    const auto i = static_cast<std::size_t>(after - owned_.begin()) - 1;
    return static_cast<std::size_t>(before_[i] + arena - owned_[i].begin);
  }

 private:
  std::span<const train::OwnedRange> owned_;
  std::vector<std::int64_t> before_;
};

/// The parts of the arena that this rank has states of.
inline std::vector<core::ArenaRange> owned_ranges(const train::DataParallel& sums) {
  std::vector<core::ArenaRange> ranges;
  for (const train::OwnedRange& range : sums.owned()) ranges.push_back({range.begin, range.size});
  return ranges;
}

/// What this rank saves: what it owns; where every replica owns all, an equal share of it. Then, in the order of the
/// arena, an equal share of the frozen parameters.
inline std::vector<core::PlacedPiece> parts_to_save(const ModelInstance& model, const train::DataParallel& sums,
                                                    std::span<const core::WholeTensor> tensors) {
  std::vector<core::ArenaRange> ranges = owned_ranges(sums);
  const std::int64_t trainable = sums.plan().trainable, frozen = sums.plan().arena - trainable;
  const std::int64_t replicas = model.grid.data, d = model.place.data;
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
  return core::pieces_to_save(model.parameters.slices(), tensors, ranges, model.place.tensor, model.grid.tensor);
}

/// What a checkpoint keeps of every element, by name.
inline std::vector<std::string> quantities_of(std::span<const ops::StateTensor> states) {
  std::vector<std::string> names = {io::parameters_name};
  for (const ops::StateTensor& state : states) names.push_back(state.name);
  return names;
}

}  // namespace bert_hpc::app
