#include "bert_hpc/model/partition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using Counts = std::vector<std::int64_t>;

/// Sublayers of each part when none may cost more than `limit`, as many as can be in the first parts; empty where they
/// do not fit. Found from the last part on: part p can begin where it reaches a beginning of the next one. (Filling
/// from the front alone would not do: a slow part may be left no sublayer that it can afford.)
Counts fill(std::int64_t sublayers, std::span<const ModelCosts> parts, double limit) {
  const auto places = static_cast<std::size_t>(sublayers) + 1;
  std::vector<Counts> ends;         // by part, last first, and beginning: where it ends, or -1
  Counts nearest(places, -1);       // the last beginning of the next part up to here, or -1
  nearest[places - 1] = sublayers;  // behind the last part: the end
  for (std::size_t p = parts.size(); p-- > 0;) {
    Counts end(places, -1), own(places, -1);
    std::int64_t reach = 0;
    for (std::int64_t first = 0; first < sublayers; ++first) {
      reach = std::max(reach, first);
      while (reach < sublayers && parts[p].of(first, reach + 1, sublayers) <= limit) ++reach;
      const auto at = static_cast<std::size_t>(first);
      const std::int64_t last = nearest[static_cast<std::size_t>(reach)];
      if (last > first) end[at] = last;
      own[at] = end[at] >= 0 ? first : at > 0 ? own[at - 1] : -1;
    }
    own[places - 1] = own[places - 2];
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

double dearest(const Counts& counts, std::span<const ModelCosts> parts, std::int64_t sublayers) {
  double most = 0;
  std::int64_t first = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    most = std::max(most, parts[p].of(first, first + counts[p], sublayers));
    first += counts[p];
  }
  return most;
}

}  // namespace

ModelRange whole(const ModelConfig& config) {
  return {.first = 0, .last = 2 * config.num_hidden_layers};
}

double ModelCosts::of(std::int64_t first, std::int64_t last_sublayer, std::int64_t sublayers) const {
  const std::int64_t inner = std::min(last_sublayer, sublayers - 2);  // without the last block
  double sum = first == 0 ? embeddings : 0;
  if (inner > first) {
    sum += static_cast<double>((inner + 1) / 2 - (first + 1) / 2) * attention +
           static_cast<double>(inner / 2 - first / 2) * feed_forward;
  }
  if (first <= sublayers - 2 && last_sublayer >= sublayers - 1) sum += last_attention;
  if (last_sublayer == sublayers) sum += last;
  return sum;
}

/// What suffices also does with more: the least limit is found by bisection, down to rounding.
std::vector<std::int64_t> balanced_counts(std::int64_t sublayers, std::span<const ModelCosts> parts) {
  core::require(!parts.empty() && std::ssize(parts) <= sublayers, "a model's parts hold a sublayer each");
  constexpr double rounding = 1e-12;
  double too_little = 0, enough = 0;
  for (const ModelCosts& part : parts) {
    for (const double cost : {part.embeddings, part.attention, part.feed_forward, part.last_attention, part.last}) {
      core::require(cost >= 0 && std::isfinite(cost), "no piece of a model costs less than nothing");
    }
    enough = std::max(enough, part.of(0, sublayers, sublayers));
  }
  Counts counts = fill(sublayers, parts, enough * (1 + rounding));
  core::require(!counts.empty(), "no cut of the model was found");
  enough = dearest(counts, parts, sublayers);
  while (enough - too_little > enough * rounding) {
    const double middle = (too_little + enough) / 2;
    const Counts found = fill(sublayers, parts, middle);
    if (found.empty()) {
      too_little = middle;
    } else {
      enough = dearest(found, parts, sublayers);
    }
  }
  return fill(sublayers, parts, enough * (1 + 1e3 * rounding));
}

std::vector<ModelRange> partition(const ModelConfig& config, int stages, std::span<const std::int64_t> balance,
                                  const ModelCosts& costs) {
  const std::int64_t blocks = config.num_hidden_layers, sublayers = 2 * blocks;
  if (stages > sublayers) {
    throw Error(ExitCode::input, "parallel.pipeline × parallel.virtual_stages = " + std::to_string(stages) +
                                     " stages are more than the model's " + std::to_string(blocks) +
                                     " blocks (model.num_hidden_layers) have sublayers; use at most " +
                                     std::to_string(sublayers) + ".");
  }
  Counts counts(balance.begin(), balance.end());
  const std::vector<ModelCosts> parts(static_cast<std::size_t>(stages), costs);
  const Counts proposed = balanced_counts(sublayers, parts);
  if (counts.empty()) counts = proposed;
  const bool positive = std::all_of(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; });
  if (counts.size() != static_cast<std::size_t>(stages) || !positive ||
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != sublayers) {
    throw Error(ExitCode::input, "parallel.balance = " + balance_text(balance) + " does not give " +
                                     std::to_string(stages) +
                                     " stages of half a block or more that sum to the model's " +
                                     std::to_string(blocks) + " blocks; " + balance_text(proposed) + " would.");
  }
  std::vector<ModelRange> ranges;
  std::int64_t first = 0;
  for (const std::int64_t count : counts) {
    ranges.push_back(
        {.first = first, .last = first + count, .embeddings = first == 0, .head = first + count == sublayers});
    first += count;
  }
  return ranges;
}

std::vector<std::int64_t> in_sublayers(std::span<const double> blocks) {
  Counts sublayers;
  for (const double count : blocks) sublayers.push_back(std::llround(2 * count));
  return sublayers;
}

std::string balance_text(std::span<const std::int64_t> sublayers) {
  std::string text;
  for (const std::int64_t count : sublayers) {
    text += (text.empty() ? "" : ", ") + std::to_string(count / 2) + (count % 2 == 0 ? "" : ".5");
  }
  return '[' + text + ']';
}

std::string blocks_text(std::int64_t first, std::int64_t last) {
  std::string text;
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (first % 2 != 0 && first < last) add("feed-forward of " + std::to_string(first / 2));
  const std::int64_t begin = (first + 1) / 2, end = last / 2;
  if (begin + 1 == end) add(std::to_string(begin));
  if (begin + 1 < end) add(std::to_string(begin) + '-' + std::to_string(end - 1));
  if (last % 2 != 0 && first < last) add("attention of " + std::to_string(end));
  return text;
}

}  // namespace bert_hpc::model
