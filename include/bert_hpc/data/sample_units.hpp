// What a step draws as one: the candidates of a query or the texts of a row, whose loss needs all of them in one
// micro-batch. Queries without a relevant candidate, which have no loss, are no units.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/core/batch_plan.hpp"

namespace bert_hpc::data {

class SampleUnits {
 public:
  /// groups (groups + 1): samples of each; levels (samples), or empty if all groups are units; lengths (samples).
  /// Throws Error(data) if no group has a relevant sample. `lengths` must outlive it.
  SampleUnits(std::span<const std::int64_t> groups, std::span<const std::int32_t> levels,
              std::span<const std::int32_t> lengths);

  /// (units): tokens of each.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::int64_t count() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t samples() const { return samples_; }            ///< of all units
  std::int64_t most_tokens() const { return most_tokens_; }    ///< of a unit
  std::int64_t most_samples() const { return most_samples_; }  ///< of a unit
  std::int64_t longest() const { return longest_; }            ///< tokens of the longest sample of all units
  std::int64_t samples_of(std::int64_t unit) const {
    const auto u = static_cast<std::size_t>(unit);
    return ends_[u] - begins_[u];
  }
  std::int64_t longest_of(std::int64_t unit) const;  ///< tokens of its longest sample

  /// Turns a plan of units into one of their samples; a unit's samples stay together, in order. Does not allocate where
  /// `plan` has room for the samples and reserve() knew of the units.
  void expand(core::BatchPlan& plan);
  void reserve(std::int64_t most_units) { units_.reserve(static_cast<std::size_t>(most_units)); }

  /// Calls visit(begin, end) for each unit among these samples, in order.
  template <class Visit>
  void visit_units(std::span<const core::PlannedSample> samples, Visit&& visit) const {
    for (std::size_t begin = 0, end = 0; begin < samples.size(); begin = end) {
      const std::int64_t last = ends_[unit_of(samples[begin].index)];
      end = begin + static_cast<std::size_t>(last - samples[begin].index);
      visit(static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end));
    }
  }

 private:
  /// Index of the unit that begins with this sample.
  std::size_t unit_of(std::int64_t sample) const;

  std::span<const std::int32_t> lengths_;
  std::vector<std::int64_t> begins_, ends_;  // (units): samples
  std::vector<std::int32_t> tokens_;         // (units)
  std::int64_t most_tokens_ = 0, most_samples_ = 0, samples_ = 0, longest_ = 0;
  std::vector<core::PlannedSample> units_;  // of the plan that is expanded
};

}  // namespace bert_hpc::data
