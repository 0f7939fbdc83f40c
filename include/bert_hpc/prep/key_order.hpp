// Numbers of rows in the order of their random keys.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "bert_hpc/prep/row_number.hpp"

namespace bert_hpc::prep {

/// Puts `numbers` into the order of their keys; those of equal keys ascend. In place, because there may be hundreds of
/// millions: a permutation into parts of equal upper bits (McIlroy, Bostic and McIlroy 1993, "American flag sort"),
/// whose pairs of key and number are then sorted part by part. Keys are expected to be random, but need not be.
template <class KeyOf>
void sort_by_key(std::vector<RowNumber>& numbers, const KeyOf& key_of) {
  constexpr std::size_t numbers_of_part = 4096, most_parts = 1 << 16, most_pairs = 1 << 16;
  const std::size_t parts = std::bit_ceil(std::clamp<std::size_t>(numbers.size() / numbers_of_part, 2, most_parts));
  const int shift = 64 - std::countr_zero(parts);
  std::vector<std::size_t> begin(parts + 1, 0);
  for (const RowNumber number : numbers) ++begin[(key_of(number) >> shift) + 1];
  for (std::size_t part = 0; part < parts; ++part) begin[part + 1] += begin[part];

  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);  // of each part: where its next number goes
  for (std::size_t part = 0; part < parts; ++part) {
    while (next[part] < begin[part + 1]) {
      RowNumber& here = numbers[next[part]];
      const std::size_t target = key_of(here) >> shift;
      if (target == part) {
        ++next[part];
      } else {
        std::swap(here, numbers[next[target]++]);
      }
    }
  }

  using Pair = std::pair<std::uint64_t, RowNumber>;
  std::vector<Pair> pairs;
  const auto pair_of = [&key_of](RowNumber number) { return Pair(key_of(number), number); };
  for (std::size_t part = 0; part < parts; ++part) {
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(begin[part]);
    const auto last = numbers.begin() + static_cast<std::ptrdiff_t>(begin[part + 1]);
    if (begin[part + 1] - begin[part] > most_pairs) {  // keys that are not random: no memory for their pairs
      std::sort(first, last, [&](RowNumber a, RowNumber b) { return pair_of(a) < pair_of(b); });
      continue;
    }
    pairs.clear();
    std::transform(first, last, std::back_inserter(pairs), pair_of);
    std::sort(pairs.begin(), pairs.end());
    std::transform(pairs.begin(), pairs.end(), first, [](const Pair& pair) { return pair.second; });
  }
}

}  // namespace bert_hpc::prep
