// How ranges are cut for kernels, and what a rule without tensor norms leaves to its base.
#include <algorithm>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "update_kernels.hpp"

namespace bert_hpc::ops {
namespace {

core::Buffer<UpdateRanges::Piece> on_device(const std::vector<UpdateRanges::Piece>& pieces) {
  core::Buffer<UpdateRanges::Piece> buffer(static_cast<std::int64_t>(pieces.size()));
  core::copy_to_device(pieces.data(), buffer.data(), pieces.size() * sizeof(UpdateRanges::Piece));
  return buffer;
}

/// Least bytes that the update of an element moves: a gradient that is known to be zero is not read, and scales of
/// blocks are few.
std::int64_t bytes_of_element(const UpdateRange& range) {
  constexpr std::int64_t number = sizeof(float), narrow = sizeof(std::uint16_t);
  std::int64_t gradient = 0;
  if (range.narrow_gradient != nullptr) {
    gradient = narrow;
  } else if (range.marks == nullptr) {
    gradient = range.clears ? 2 * number : number;
  }
  std::int64_t states = 0;
  for (std::size_t k = 0; k < max_states; ++k) {
    states += range.states[k] != nullptr ? 2 * number : range.blocks[k].codes != nullptr ? 2 : 0;
  }
  return 2 * number + gradient + states + (range.copy != nullptr ? narrow : 0);
}

}  // namespace

UpdateRanges::UpdateRanges(std::span<const UpdateRange> ranges, core::DataType copies)
    : copies_(copies), ranges_(static_cast<std::int64_t>(ranges.size())), first_piece_(1, 0), bytes_(1, 0) {
  std::vector<Piece> pieces, blocks;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    core::require(ranges[r].narrow_gradient == nullptr || (!ranges[r].clears && ranges[r].marks == nullptr),
                  "optimizer: a gradient in 16 bits is neither cleared nor marked");
    const auto index = static_cast<std::int64_t>(r);
    const std::int64_t size = ranges[r].size;
    for (std::int64_t begin = 0; begin < size; begin += piece_elements) {
      pieces.push_back({index, begin, std::min(piece_elements, size - begin)});
    }
    first_piece_.push_back(static_cast<std::int64_t>(pieces.size()));
    bytes_.push_back(bytes_.back() + size * bytes_of_element(ranges[r]));
    for (std::int64_t begin = 0, end; begin < size; begin = end) {
      end = std::min(size, (begin + ranges[r].phase) / norm_block * norm_block + norm_block - ranges[r].phase);
      blocks.push_back({index, begin, end - begin});
    }
  }
  pieces_ = on_device(pieces);
  blocks_ = on_device(blocks);
  core::copy_to_device(ranges.data(), ranges_.data(), ranges.size_bytes());
}

std::int64_t UpdateRanges::piece_of(std::size_t range) const {
  core::require(range < first_piece_.size(), "optimizer: ranges that there are not");
  return first_piece_[range];
}

double UpdateRanges::bytes(std::size_t first, std::size_t last) const {
  core::require(first <= last && last < bytes_.size(), "optimizer: ranges that there are not");
  return static_cast<double>(bytes_[last] - bytes_[first]);
}

std::unique_ptr<PostponedSteps> UpdateRule::postpone(std::span<const UpdateRange>) const {
  return nullptr;
}
void UpdateRule::begin(const UpdateStep&, const UpdateRanges&, double*) const {}
void UpdateRule::begin_on_host(const UpdateStep&, const HostRange&, double*) const {}
float UpdateRule::tensor_scale(const TensorSums&) const {
  return 1.0f;
}

}  // namespace bert_hpc::ops
