#include "bert_hpc/model/partition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/model/make_plan.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using Counts = std::vector<std::int64_t>;

/// The cost of any range in constant time.
class RangeSums {
 public:
  explicit RangeSums(const ModelCosts& costs) : embeddings_(costs.embeddings), before_(1, 0.0) {
    for (const double cost : costs.sublayers) before_.push_back(before_.back() + cost);
  }
  double of(std::int64_t first, std::int64_t last) const {
    return before_[static_cast<std::size_t>(last)] - before_[static_cast<std::size_t>(first)] +
           (first == 0 ? embeddings_ : 0.0);
  }

 private:
  double embeddings_;
  std::vector<double> before_;
};

/// Sublayers of each part when none may cost more than `limit`, as many as can be in the first parts; empty if they
/// do not fit. Found from the last part on: part p can begin where it reaches a beginning of the next one. (Filling
/// from the front alone would not do: a slow part may be left no sublayer that it can afford.)
Counts fill(std::int64_t sublayers, std::span<const RangeSums> parts, double limit) {
  const auto positions = static_cast<std::size_t>(sublayers) + 1;
  std::vector<Counts> ends;            // by part, last first, and beginning: where it ends, or -1
  Counts nearest(positions, -1);       // the last beginning of the next part up to here, or -1
  nearest[positions - 1] = sublayers;  // after the last part: the end
  for (std::size_t p = parts.size(); p-- > 0;) {
    Counts end(positions, -1), own(positions, -1);
    std::int64_t reach = 0;
    for (std::int64_t first = 0; first < sublayers; ++first) {
      reach = std::max(reach, first);
      while (reach < sublayers && parts[p].of(first, reach + 1) <= limit) ++reach;
      const auto at = static_cast<std::size_t>(first);
      const std::int64_t last = nearest[static_cast<std::size_t>(reach)];
      if (last > first) end[at] = last;
      own[at] = end[at] >= 0 ? first : at > 0 ? own[at - 1] : -1;
    }
    own[positions - 1] = own[positions - 2];
    nearest = std::move(own);
    ends.push_back(std::move(end));
  }
  Counts counts;
  std::int64_t first = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::int64_t last = ends[parts.size() - 1 - p][static_cast<std::size_t>(first)];
    if (last < 0) return {};
    counts.push_back(last - first);
    first = last;
  }
  return counts;
}

double bottleneck(const Counts& counts, std::span<const RangeSums> parts) {
  double most = 0;
  std::int64_t first = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    most = std::max(most, parts[p].of(first, first + counts[p]));
    first += counts[p];
  }
  return most;
}

}  // namespace

ModelRange whole(const ModelPlan& plan) {
  return {.first = 0, .last = plan.sublayer_count()};
}

ModelRange whole(const ModelConfig& config) {
  return whole(make_plan(config, layers::sequence_head(), 1));
}

double ModelCosts::of(std::int64_t first, std::int64_t last) const {
  return std::accumulate(sublayers.begin() + first, sublayers.begin() + last, first == 0 ? embeddings : 0.0);
}

ModelCosts equal_costs(std::int64_t sublayers) {
  return {.sublayers = std::vector<double>(static_cast<std::size_t>(sublayers), 1.0)};
}

/// What suffices also does with more: the least limit is found by bisection, down to rounding.
std::vector<std::int64_t> balanced_counts(std::span<const ModelCosts> parts) {
  core::require(!parts.empty() && parts.size() <= parts.front().sublayers.size(),
                "a model's parts hold a sublayer each");
  const std::int64_t sublayers = std::ssize(parts.front().sublayers);
  constexpr double rounding = 1e-12;
  double too_little = 0, enough = 0;
  std::vector<RangeSums> sums;
  for (const ModelCosts& part : parts) {
    const auto valid = [](double cost) { return cost >= 0 && std::isfinite(cost); };
    core::require(valid(part.embeddings) && std::all_of(part.sublayers.begin(), part.sublayers.end(), valid) &&
                      std::ssize(part.sublayers) == sublayers,
                  "every sublayer of a model has a cost, of zero or more");
    sums.emplace_back(part);
    enough = std::max(enough, sums.back().of(0, sublayers));
  }
  Counts counts = fill(sublayers, sums, enough * (1 + rounding));
  core::require(!counts.empty(), "no cut of the model was found");
  enough = bottleneck(counts, sums);
  while (enough - too_little > enough * rounding) {
    const double middle = (too_little + enough) / 2;
    const Counts found = fill(sublayers, sums, middle);
    if (found.empty()) {
      too_little = middle;
    } else {
      enough = bottleneck(found, sums);
    }
  }
  return fill(sublayers, sums, enough * (1 + 1e3 * rounding));
}

std::vector<ModelRange> partition(int stages, std::span<const std::int64_t> balance, const ModelCosts& costs) {
  const std::int64_t sublayers = std::ssize(costs.sublayers);
  if (stages > sublayers) {
    throw Error(ExitCode::input, "parallel.pipeline × parallel.virtual_stages = " + std::to_string(stages) +
                                     " stages are more than the model's " + std::to_string(sublayers) +
                                     " sublayers; use at most as many.");
  }
  Counts counts(balance.begin(), balance.end());
  const std::vector<ModelCosts> parts(static_cast<std::size_t>(stages), costs);
  const Counts proposed = balanced_counts(parts);
  if (counts.empty()) counts = proposed;
  const bool positive = std::all_of(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; });
  if (counts.size() != static_cast<std::size_t>(stages) || !positive ||
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != sublayers) {
    throw Error(ExitCode::input, "parallel.balance, " + balance_text(balance, 1) + " sublayers, does not give " +
                                     std::to_string(stages) + " stages of one or more that sum to the model's " +
                                     std::to_string(sublayers) + "; " + balance_text(proposed, 1) + " would.");
  }
  return ranges_of(counts);
}

std::vector<ModelRange> ranges_of(std::span<const std::int64_t> balance) {
  std::vector<ModelRange> ranges;
  std::int64_t first = 0;
  for (const std::int64_t count : balance) {
    ranges.push_back({.first = first, .last = first + count, .embeddings = ranges.empty(), .head = false});
    first += count;
  }
  if (!ranges.empty()) ranges.back().head = true;
  return ranges;
}

std::vector<std::int64_t> in_sublayers(std::span<const double> blocks, std::int64_t sublayers_of_block) {
  Counts sublayers;
  for (const double count : blocks) sublayers.push_back(std::llround(static_cast<double>(sublayers_of_block) * count));
  return sublayers;
}

std::string balance_text(std::span<const std::int64_t> sublayers, std::int64_t sublayers_of_block) {
  std::string text;
  for (const std::int64_t count : sublayers) {
    const double blocks = static_cast<double>(count) / static_cast<double>(sublayers_of_block);
    text += (text.empty() ? "" : ", ") + core::format_number(blocks);
  }
  return '[' + text + ']';
}

std::string blocks_text(const ModelPlan& plan, std::int64_t first, std::int64_t last) {
  const std::int64_t of_block = plan.sublayers_of_block();
  std::string text;
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  for (std::int64_t next = first; next < last;) {
    const layers::SublayerSettings& sublayer = plan.sublayers[static_cast<std::size_t>(next)];
    const std::int64_t whole = next % of_block == 0 ? (last - next) / of_block : 0;
    if (whole == 0) {
      add(sublayer.kind->name() + " of " + std::to_string(sublayer.block));
      ++next;
      continue;
    }
    const std::string end = std::to_string(sublayer.block + whole - 1);
    add(std::to_string(sublayer.block) + (whole > 1 ? '-' + end : ""));
    next += whole * of_block;
  }
  return text;
}

}  // namespace bert_hpc::model
