#include "bert_hpc/data/sample_units.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::data {

SampleUnits::SampleUnits(std::span<const std::int64_t> groups, std::span<const std::int32_t> levels,
                         std::span<const std::int32_t> lengths)
    : lengths_(lengths) {
  for (std::size_t g = 0; g + 1 < groups.size(); ++g) {
    const std::int64_t begin = groups[g], end = groups[g + 1];
    bool is_relevant = levels.empty();
    std::int64_t tokens = 0;
    for (auto s = static_cast<std::size_t>(begin); s < static_cast<std::size_t>(end); ++s) {
      is_relevant = is_relevant || levels[s] > 0;
      tokens += lengths[s];
    }
    if (!is_relevant) continue;
    if (tokens > std::numeric_limits<std::int32_t>::max()) {
      if (levels.empty()) throw core::Error(core::ExitCode::data, "row " + std::to_string(g) + " has too many texts.");
      throw core::Error(core::ExitCode::data, "the candidates of query " + std::to_string(g) + " have " +
                                                  std::to_string(tokens) +
                                                  " tokens together, more than a micro-batch may have. Use [task] loss "
                                                  "= \"binary\", or fewer candidates of each query.");
    }
    begins_.push_back(begin);
    ends_.push_back(end);
    tokens_.push_back(static_cast<std::int32_t>(tokens));
    most_tokens_ = std::max(most_tokens_, tokens);
    longest_ = std::max(longest_, longest_of(count() - 1));
    samples_ += end - begin;
    most_samples_ = std::max(most_samples_, end - begin);
  }
  if (!tokens_.empty()) return;
  throw core::Error(core::ExitCode::data,
                    "no query of the training data has a relevant candidate: [task] loss = \"listwise\" has nothing to "
                    "learn from. Check [source] label and qrels in the input of bert_hpc_prep.");
}

std::int64_t SampleUnits::longest_of(std::int64_t unit) const {
  const auto u = static_cast<std::size_t>(unit);
  return *std::max_element(lengths_.begin() + begins_[u], lengths_.begin() + ends_[u]);
}

void SampleUnits::expand(core::BatchPlan& plan) {
  units_.assign(plan.samples.begin(), plan.samples.end());
  plan.samples.clear();
  std::size_t unit = 0;
  for (std::size_t chunk = 1; chunk < plan.chunk_begin.size(); ++chunk) {
    for (const auto end = static_cast<std::size_t>(plan.chunk_begin[chunk]); unit < end; ++unit) {
      const auto at = static_cast<std::size_t>(units_[unit].index);
      for (std::int64_t s = begins_[at]; s < ends_[at]; ++s) {
        plan.samples.push_back({s, lengths_[static_cast<std::size_t>(s)]});
      }
    }
    plan.chunk_begin[chunk] = static_cast<std::int32_t>(plan.samples.size());
  }
}

std::size_t SampleUnits::unit_of(std::int64_t sample) const {
  const auto found = std::lower_bound(begins_.begin(), begins_.end(), sample);
  core::require(found != begins_.end() && *found == sample, "a unit's samples are together");
  return static_cast<std::size_t>(found - begins_.begin());
}

}  // namespace bert_hpc::data
