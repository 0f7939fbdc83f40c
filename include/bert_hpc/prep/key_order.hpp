// Numbers of rows in the order of their random keys.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bert_hpc::prep {

/// Puts `numbers`, none negative, into the order of their keys; those of equal keys ascend. In place, because there may
/// be hundreds of millions: what is sorted is a key's upper bits with the number below them; then neighbours whose
/// upper bits are equal are sorted by whole keys.
template <class KeyOf>
void sort_by_key(std::vector<std::int64_t>& numbers, const KeyOf& key_of) {
  if (numbers.empty()) return;
  const auto largest = static_cast<std::uint64_t>(*std::max_element(numbers.begin(), numbers.end()));
  const std::uint64_t low = std::bit_ceil(largest + 1) - 1;
  const auto bits = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
  for (std::int64_t& number : numbers) number = static_cast<std::int64_t>((key_of(number) & ~low) | bits(number));
  std::sort(numbers.begin(), numbers.end(), [&](std::int64_t a, std::int64_t b) { return bits(a) < bits(b); });
  for (std::size_t first = 0, end = 0; first < numbers.size(); first = end) {
    const std::uint64_t upper = bits(numbers[first]) & ~low;
    for (end = first; end < numbers.size() && (bits(numbers[end]) & ~low) == upper; ++end) {
      numbers[end] = static_cast<std::int64_t>(bits(numbers[end]) & low);
    }
    if (end - first == 1) continue;
    std::stable_sort(numbers.begin() + static_cast<std::ptrdiff_t>(first),
                     numbers.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](std::int64_t a, std::int64_t b) { return key_of(a) < key_of(b); });
  }
}

}  // namespace bert_hpc::prep
