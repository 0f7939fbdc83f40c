// How an optimizer cuts the ranges that a rank owns into runs with the same update, and where states and sums of each
// are.
#include <algorithm>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/train/optimizer.hpp"

namespace bert_hpc::train {
namespace {

/// Elements with the same update.
struct LikeRange {
  std::int64_t begin = 0, end = 0;
  bool decay = true, replaced = false, in_blocks = false;
  std::int64_t slice = -1;  // where it is one slice alone
};

/// Neighbouring trainable slices with the same update as one range, with or without copies; padding behind a slice
/// belongs to it (it is zero and stays so). `apart`: each slice is a range, without its padding. `blocks`: states of
/// large tensors are kept in blocks, which begin with their ranges.
std::vector<LikeRange> like_ranges(const core::ParameterStore& parameters, std::span<const ArenaRange> replaced,
                                   bool apart, bool blocks) {
  std::vector<LikeRange> ranges;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    if (!slice.trainable) break;
    const bool again = std::any_of(replaced.begin(), replaced.end(), [&](const ArenaRange& range) {
      return range.begin <= slice.offset && slice.offset + slice.size <= range.end;
    });
    const auto number = static_cast<std::int64_t>(&slice - parameters.slices().data());
    if (apart) {
      ranges.push_back({slice.offset, slice.offset + slice.size, slice.decay, again, false, number});
      continue;
    }
    const bool in_blocks = blocks && is_kept_in_blocks(slice);
    const bool like = !ranges.empty() && ranges.back().decay == slice.decay && ranges.back().replaced == again &&
                      ranges.back().in_blocks == in_blocks;
    if (!like || slice.offset == parameters.products_begin()) {
      if (!ranges.empty()) ranges.back().end = slice.offset;
      ranges.push_back({slice.offset, 0, slice.decay, again, in_blocks});
    }
  }
  if (!ranges.empty() && !apart) ranges.back().end = parameters.trainable_size();
  return ranges;
}

}  // namespace

void Optimizer::cut(std::span<const OwnedRange> owned, std::span<const ArenaRange> replaced) {
  const bool blocks = ops::have_blocks(kind_.states);
  core::require(!blocks || !norms_, "optimizer: a rule with tensor norms keeps no blocks");
  const std::vector<LikeRange> ranges = like_ranges(parameters_, replaced, norms_.has_value(), blocks);
  std::int64_t elements = 0, unused = norms_ ? norms_->blocks() : 0;
  std::size_t runs = 0;  // of the ranges before
  for (const OwnedRange& mine : owned) {
    Range& own = ranges_.emplace_back();
    own.first = static_cast<std::size_t>(elements);
    own.owned = mine;
    const OptimizerStates::Place whole = blocks ? OptimizerStates::Place() : states_.add(mine.begin, mine.size, false);
    own.first_run = runs;
    for (const LikeRange& range : ranges) {
      const std::int64_t begin = std::max(mine.begin, range.begin), end = std::min(mine.begin + mine.size, range.end);
      if (begin >= end) continue;
      const std::int64_t at = begin - mine.begin;
      const bool narrow = mine.narrow_gradient != nullptr;
      own.runs.push_back({.begin = static_cast<std::size_t>(begin),
                          .size = static_cast<std::size_t>(end - begin),
                          .owned = static_cast<std::size_t>(elements + at),
                          .states = blocks ? states_.add(begin, end - begin, range.in_blocks)
                                           : OptimizerStates::Place{false, whole.index + at},
                          .gradient = narrow ? nullptr : mine.gradient + at,
                          .decay = range.decay,
                          .marks = mine.marks == nullptr ? nullptr : mine.marks + at / ops::TouchedRows::line,
                          .replaced = range.replaced && !offload_ && mine.marks == nullptr,
                          .narrow_gradient = narrow ? mine.narrow_gradient + at : nullptr});
      if (norms_) place_sums(own.runs.back(), range.slice, unused);
    }
    elements += mine.size;
    runs += own.runs.size();
  }
  if (!norms_) return;
  if (offload_) {
    host_sums_.resize(static_cast<std::size_t>(2 * unused));
    host_tensor_scales_.resize(static_cast<std::size_t>(norms_->tensors()));
  } else {
    sums_ = core::MirroredArray<double>(2 * unused);
    tensor_scales_ = core::MirroredArray<float>(norms_->tensors());
  }
}

/// What does not count gets places from `unused` on.
void Optimizer::place_sums(Run& run, std::int64_t slice, std::int64_t& unused) const {
  const TensorNormScope::Slice& place = norms_->slices[static_cast<std::size_t>(slice)];
  const std::int64_t offset = parameters_.slices()[static_cast<std::size_t>(slice)].offset - place.group_begin;
  const std::int64_t from = static_cast<std::int64_t>(run.begin) - place.group_begin;
  run.tensor = place.tensor;
  run.phase = from % ops::norm_block;
  run.first_block =
      norms_->first_block[static_cast<std::size_t>(place.tensor)] + from / ops::norm_block - offset / ops::norm_block;
  if (place.counts) return;
  run.first_block = unused;
  unused += ops::blocks_touched(run.phase, static_cast<std::int64_t>(run.size));
}

}  // namespace bert_hpc::train
