#include "bert_hpc/model/partition.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;

/// Blocks of each part when none may cost more than `limit`, filled from the front; empty where they do not fit.
std::vector<std::int64_t> fill(std::int64_t blocks, std::span<const PartCosts> parts, double limit) {
  constexpr double rounding = 1e-9;
  std::vector<std::int64_t> counts;
  std::int64_t left = blocks, later = std::ssize(parts);
  for (const PartCosts& part : parts) {
    --later;  // each of those needs one
    const double room = (limit - part.extra) / part.block + rounding;
    const std::int64_t most = std::min(left - later, static_cast<std::int64_t>(std::min(room, 1e9)));
    if (room < 1 || most < 1) return {};
    counts.push_back(most);
    left -= most;
  }
  return left == 0 ? counts : std::vector<std::int64_t>{};
}

}  // namespace

BlockRange whole(const BertConfig& config) {
  return {.first = 0, .last = config.num_hidden_layers};
}

/// The dearest part costs a whole number of its blocks and its extra: the least of these values that suffices is found
/// by bisection, as what suffices also does with more.
std::vector<std::int64_t> balanced_counts(std::int64_t blocks, std::span<const PartCosts> parts) {
  core::require(!parts.empty() && std::ssize(parts) <= blocks, "a model's parts hold a block each");
  std::vector<double> limits;
  for (const PartCosts& part : parts) {
    core::require(part.block > 0, "a block costs something");
    for (std::int64_t count = 1; count <= blocks; ++count) {
      limits.push_back(static_cast<double>(count) * part.block + part.extra);
    }
  }
  std::sort(limits.begin(), limits.end());
  const auto enough = std::partition_point(limits.begin(), limits.end(),
                                           [&](double limit) { return fill(blocks, parts, limit).empty(); });
  core::require(enough != limits.end(), "no cut of the model was found");
  return fill(blocks, parts, *enough);
}

StageCosts stage_costs(const BertConfig& config, HeadKind kind, double mean_length) {
  const auto hidden = static_cast<double>(config.hidden_size), wide = static_cast<double>(config.intermediate_size);
  const double block = 4 * hidden * hidden + 2 * hidden * wide + 2 * hidden * mean_length;  // multiply-adds a token
  StageCosts costs;
  // A look-up moves rows instead of multiplying them: about as long as 64 multiply-adds an element.
  costs.embeddings = 64 * hidden / block;
  constexpr double masked_share = 0.15;
  costs.head = kind == HeadKind::masked_lm
                   ? masked_share * hidden * (hidden + static_cast<double>(config.vocab_size)) / block
                   : hidden * hidden / std::max(1.0, mean_length) / block;
  // The last block computes only the rows that the head reads: of its products, keys and values remain whole.
  const double read = kind == HeadKind::masked_lm ? masked_share : 1 / std::max(1.0, mean_length);
  const double saved = (1 - read) * (block - 2 * hidden * hidden) / block;
  costs.head -= saved;
  return costs;
}

std::vector<BlockRange> partition(const BertConfig& config, int stages, std::span<const std::int64_t> balance,
                                  const StageCosts& costs) {
  const std::int64_t blocks = config.num_hidden_layers;
  if (stages > blocks) {
    throw Error(ExitCode::input, "parallel.pipeline × parallel.virtual_stages = " + std::to_string(stages) +
                                     " stages are more than the model's " + std::to_string(blocks) +
                                     " blocks (model.num_hidden_layers); use at most " + std::to_string(blocks) + ".");
  }
  std::vector<std::int64_t> counts(balance.begin(), balance.end());
  std::vector<PartCosts> parts(static_cast<std::size_t>(stages));
  parts.front().extra += costs.embeddings;
  parts.back().extra += costs.head;
  const std::vector<std::int64_t> proposed = balanced_counts(blocks, parts);
  if (counts.empty()) counts = proposed;
  const bool positive = std::all_of(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; });
  if (counts.size() != static_cast<std::size_t>(stages) || !positive ||
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != blocks) {
    throw Error(ExitCode::input, "parallel.balance = " + core::list_text(balance) + " does not give " +
                                     std::to_string(stages) + " stages of one block or more that sum to the model's " +
                                     std::to_string(blocks) + " blocks; " + core::list_text(proposed) + " would.");
  }
  std::vector<BlockRange> ranges;
  std::int64_t first = 0;
  for (const std::int64_t count : counts) {
    ranges.push_back(
        {.first = first, .last = first + count, .embeddings = first == 0, .head = first + count == blocks});
    first += count;
  }
  return ranges;
}

}  // namespace bert_hpc::model
