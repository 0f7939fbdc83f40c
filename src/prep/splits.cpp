// Samples and splits. Random order comes from a hash of (seed, row), so no state is carried along and no rank count
// enters. Rows that belong together, by [split] group or as neighbours in packed text, have one hash.
#include "splits.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/prep/key_order.hpp"
#include "row_labels.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::uint64_t use_split = 1, use_sample = 3;  // 2 is the order of rows in shards

std::vector<RowNumber> usable_rows(const RowTable& table, std::int64_t rows) {
  const auto last = table.status.begin() + rows;
  std::vector<RowNumber> usable;
  usable.reserve(static_cast<std::size_t>(std::count_if(table.status.begin(), last, is_kept)));
  for (std::int64_t row = 0; row < rows; ++row) {
    if (is_kept(table.status[static_cast<std::size_t>(row)])) usable.push_back(static_cast<RowNumber>(row));
  }
  return usable;
}

/// Puts `rows`, which ascend, into random order; rows of one group are neighbours in it.
void shuffle(std::vector<RowNumber>& rows, const RowTable& table, const PrepConfig& config, std::uint64_t use) {
  // Packed text goes to its split in runs of neighbouring rows, as sentences of one text belong together.
  const auto run = config.packs() ? std::clamp<std::int64_t>(std::ssize(rows) / 200, 1, 64) : 1;
  const auto unit = [&](RowNumber row) {
    return table.groups.empty() ? row / run : static_cast<std::int64_t>(table.groups[row]);
  };
  sort_by_key(rows, [&](RowNumber row) { return random_key(config.split.seed, use, unit(row)); });
}

/// Index after the last row of the group that begins at `first`.
std::size_t end_of_group(const std::vector<RowNumber>& rows, std::size_t first,
                         const std::vector<std::uint64_t>& groups) {
  std::size_t end = first + 1;
  if (groups.empty()) return end;
  const auto group = [&](std::size_t index) { return groups[rows[index]]; };
  while (end < rows.size() && group(end) == group(first)) ++end;
  return end;
}

/// Rows that are split separately: of one label, or of near values.
std::vector<std::vector<RowNumber>> strata(const RowTable& table, const PrepConfig& config, std::int64_t rows) {
  std::vector<RowNumber> usable = usable_rows(table, rows);
  if (!config.stratifies()) return {std::move(usable)};
  return strata_of(std::move(usable), table, config);
}

}  // namespace

std::uint64_t random_key(std::int64_t seed, std::uint64_t use, std::int64_t row) {
  return core::mix64(core::mix64(static_cast<std::uint64_t>(seed) ^ use << 56) + static_cast<std::uint64_t>(row));
}

void divide_rows(const std::vector<RowNumber>& rows, const SplitConfig& split, const std::vector<std::uint64_t>& groups,
                 std::vector<RowStatus>& status) {
  const double sum = split.train + split.validation + split.test;
  const auto count = static_cast<double>(rows.size());
  const auto train_end = static_cast<std::size_t>(std::llround(count * (split.train / sum)));
  const auto validation_end =
      split.test > 0 ? static_cast<std::size_t>(std::llround(count * ((split.train + split.validation) / sum)))
                     : rows.size();
  for (std::size_t first = 0; first < rows.size();) {
    const std::size_t end = end_of_group(rows, first, groups);
    const std::size_t middle = first + end;  // twice the index of the group's middle
    const RowStatus target = middle < 2 * train_end        ? RowStatus::train
                             : middle < 2 * validation_end ? RowStatus::validation
                                                           : RowStatus::test;
    for (; first < end; ++first) status[rows[first]] = target;
  }
}

void sample_rows(RowTable& table, const PrepConfig& config, std::int64_t rows) {
  const double sample = config.filter.sample;
  if (sample == 0) return;
  std::vector<RowNumber> usable = usable_rows(table, rows);
  const auto count = static_cast<double>(usable.size());
  const auto drawn =
      static_cast<std::size_t>(std::max(1.0, std::min(count, sample > 1 ? sample : count * sample) + 0.5));
  shuffle(usable, table, config, use_sample);
  for (std::size_t first = 0; first < usable.size();) {
    const std::size_t end = end_of_group(usable, first, table.groups);
    const bool taken = first == 0 || first + end < 2 * drawn;
    for (; first < end; ++first) {
      if (taken) continue;
      table.status[usable[first]] = RowStatus::not_sampled;
      uncount_label(table, usable[first]);
    }
  }
}

void split_rows(RowTable& table, const PrepConfig& config, std::int64_t rows) {
  const double fractions[split_count] = {config.split.train, config.split.validation, config.split.test};
  if (std::count(std::begin(fractions), std::end(fractions), 0.0) == split_count - 1) {  // nothing to draw
    const auto only = std::max_element(std::begin(fractions), std::end(fractions)) - std::begin(fractions);
    std::replace_if(table.status.begin(), table.status.begin() + rows, is_kept, static_cast<RowStatus>(only));
    return;
  }
  for (std::vector<RowNumber>& stratum : strata(table, config, rows)) {
    shuffle(stratum, table, config, use_split);
    divide_rows(stratum, config.split, table.groups, table.status);
  }
}

}  // namespace bert_hpc::prep
