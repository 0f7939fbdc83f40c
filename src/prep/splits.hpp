// Internal to the module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "bert_hpc/prep/row_table.hpp"

namespace bert_hpc::prep {

/// [filter] sample: of the rows [0, rows) of `table`, those that can be used and are not drawn become not_sampled.
/// Rows of one group are drawn together. Counts of labels follow. Does nothing without a sample.
void sample_rows(RowTable& table, const PrepConfig& config, std::int64_t rows);

/// [split] for the rows [0, rows) of `table` that can be used: each gets train, validation or test.
void split_rows(RowTable& table, const PrepConfig& config, std::int64_t rows);

/// Puts `numbers` into the order of their keys; those of equal keys ascend.
template <class KeyOf>
void sort_by_key(std::vector<std::int64_t>& numbers, const KeyOf& key_of) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> keyed;
  keyed.reserve(numbers.size());
  for (const std::int64_t number : numbers) keyed.emplace_back(key_of(number), number);
  std::sort(keyed.begin(), keyed.end());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = keyed[i].second;
}

}  // namespace bert_hpc::prep
