#include "row_lengths.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bert_hpc::prep {

core::NarrowArray in_order_of_rows(const core::NarrowArray& counts, const core::NarrowArray& own,
                                   const core::NarrowArray& lengths) {
  core::NarrowArray all;
  std::size_t next = 0;
  for (std::size_t row = 0; row < counts.size(); ++row) {
    const bool is_own = own[row] > 0;
    for (std::int32_t i = 0; i < counts[row]; ++i) all.push_back(is_own ? lengths[next++] : 0);
  }
  return all;
}

core::NarrowArray shared(comm::Communicator& group, const core::NarrowArray& numbers) {
  core::NarrowArray all;
  std::vector<std::int64_t> block(1 << 16);
  for (std::size_t at = 0; at < numbers.size(); at += block.size()) {
    const std::size_t count = std::min(block.size(), numbers.size() - at);
    for (std::size_t i = 0; i < count; ++i) block[i] = numbers[at + i];
    group.all_reduce(std::span(block.data(), count), comm::Reduction::sum);
    for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<std::int32_t>(block[i]));
  }
  all.shrink_to_fit();
  return all;
}

}  // namespace bert_hpc::prep
