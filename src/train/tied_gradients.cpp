#include "bert_hpc/train/tied_gradients.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::train {
namespace {

constexpr std::int64_t max_at_once = std::int64_t{1} << 18;  // elements: 1 MiB

}  // namespace

TiedGradients::TiedGradients(const core::ParameterStore& parameters, const std::string& original,
                             const std::string& copy, comm::Communicator* ends)
    : ends_(ends) {
  for (const core::ParameterSlice& slice : parameters.slices()) {
    if (slice.name == original) original_ = {slice.offset, slice.size};
    if (slice.name == copy) copy_ = {slice.offset, slice.size};
  }
  const std::int64_t size = std::max(original_.size, copy_.size);
  if (size == 0) return;
  const bool both = original_.size == copy_.size;
  core::require(both || (ends != nullptr && ends->size() == 2), "tied gradients: the other one is nowhere");
  if (!both) received_ = core::Buffer<float>(std::min(size, max_at_once));
}

void TiedGradients::find(Range range, std::span<const OwnedRange> sums, std::vector<std::span<float>>& parts) {
  parts.clear();
  for_held_parts(sums, range.begin, range.size,
                 [&parts](std::span<float> part, std::int64_t) { parts.push_back(part); });
}

void TiedGradients::add(std::span<const OwnedRange> sums) {
  find(original_, sums, originals_);
  find(copy_, sums, copies_);
  if (originals_.empty() && copies_.empty()) return;
  if (received_.size() == 0) {
    core::require(originals_.size() == copies_.size(), "tied gradients: original and copy are shared out differently");
    for (std::size_t i = 0; i < originals_.size(); ++i) {
      ops::accumulate(copies_[i], originals_[i]);
      ops::set_zero(copies_[i]);
      ops::accumulate(originals_[i], copies_[i]);
    }
    return;
  }
  for (const std::span<float> part : originals_.empty() ? copies_ : originals_) {
    for (std::size_t begin = 0; begin < part.size(); begin += static_cast<std::size_t>(received_.size())) {
      const std::span<float> mine =
          part.subspan(begin, std::min(part.size() - begin, static_cast<std::size_t>(received_.size())));
      const std::span<float> theirs(received_.data(), mine.size());
      ends_->exchange(mine, theirs, 1 - ends_->rank());
      ops::accumulate(theirs, mine);  // a + b and b + a have the same bits
    }
  }
}

}  // namespace bert_hpc::train
