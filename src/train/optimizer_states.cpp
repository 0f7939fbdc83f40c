#include "bert_hpc/train/optimizer_states.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/shard.hpp"

namespace bert_hpc::train {

OptimizerStates::Position OptimizerStates::add(std::int64_t begin, std::int64_t size, bool in_blocks) {
  core::require(parts_.empty() || parts_.back().begin + parts_.back().size <= begin, "optimizer states: not ascending");
  core::require(!in_blocks || (begin % ops::dynamic8::block == 0 && codes_ % ops::dynamic8::block == 0),
                "optimizer states: blocks are not aligned");
  std::int64_t& count = in_blocks ? codes_ : numbers_;
  parts_.push_back({begin, size, {in_blocks, count}});
  count += size;
  return parts_.back().position;
}

void OptimizerStates::allocate(core::MemoryKind memory) {
  arrays_.clear();
  for (const ops::StateTensor& kind : kinds_) {
    core::require(kind.in_blocks() || codes_ == 0, "optimizer states: one is in blocks and another one is not");
    arrays_.push_back({core::Buffer<float>(numbers_, memory), core::Buffer<std::uint8_t>(codes_, memory),
                       core::Buffer<float>(core::state_blocks::count(codes_), memory)});
  }
}

OptimizerStates::Position OptimizerStates::position_of(std::int64_t arena) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), arena,
                                      [](std::int64_t at, const Part& part) { return at < part.begin; });
  core::require(after != parts_.begin() && arena < std::prev(after)->begin + std::prev(after)->size,
                "optimizer states: of an element that this rank does not own");
  const Part& part = *std::prev(after);
  return {part.position.in_blocks, part.position.index + arena - part.begin};
}

bool is_kept_in_blocks(const core::ParameterSlice& slice) {
  return core::state_blocks::are_kept(core::elements_of(core::whole_shape(slice.shape, slice.shard)));
}

}  // namespace bert_hpc::train
