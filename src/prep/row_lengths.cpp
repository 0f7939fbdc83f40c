#include "row_lengths.hpp"

#include <algorithm>
#include <numeric>

namespace bert_hpc::prep {

std::vector<std::int32_t> in_order_of_rows(const std::vector<std::int32_t>& counts,
                                           const std::vector<std::int32_t>& own,
                                           const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> all;
  all.reserve(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
  auto next = lengths.begin();
  for (std::size_t row = 0; row < counts.size(); ++row) {
    for (std::int32_t i = 0; i < counts[row]; ++i) all.push_back(own[row] > 0 ? *next++ : 0);
  }
  return all;
}

void share(comm::Communicator& group, std::vector<std::int32_t>& numbers) {
  std::vector<std::int64_t> block(1 << 16);
  for (std::size_t at = 0; at < numbers.size(); at += block.size()) {
    const std::size_t count = std::min(block.size(), numbers.size() - at);
    for (std::size_t i = 0; i < count; ++i) block[i] = numbers[at + i];
    group.all_reduce(std::span(block.data(), count), comm::Reduction::sum);
    for (std::size_t i = 0; i < count; ++i) numbers[at + i] = static_cast<std::int32_t>(block[i]);
  }
}

}  // namespace bert_hpc::prep
