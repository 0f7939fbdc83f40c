#include "bert_hpc/train/shard_plan.hpp"

#include <algorithm>
#include <bit>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/optimizer_update.hpp"

namespace bert_hpc::train {
namespace {

constexpr std::int64_t cache_line = 16;  // floats
constexpr std::int64_t float_bytes = sizeof(float);

std::vector<ShardPlan::Bucket> cut(const ShardPlan& plan, std::int64_t size) {
  std::vector<ShardPlan::Bucket> buckets;
  for (int s = 0; s < plan.segments(); ++s) {
    const std::int64_t end = plan.segment_end(s);
    for (std::int64_t begin = plan.settings.segments[static_cast<std::size_t>(s)]; begin < end; begin += size) {
      buckets.push_back({begin, std::min(size, end - begin), s});
    }
  }
  return buckets;
}

void check(const ShardPlan& plan) {
  const ShardSettings& settings = plan.settings;
  const core::ParameterStore::Alignment alignment = shard_alignment(settings.reproducible, plan.ranks);
  core::require(plan.arena % alignment.arena == 0, "shard plan: the arena does not divide into equal pieces");
  core::require(!settings.segments.empty() && settings.segments.front() == 0, "shard plan: segments begin at 0");
  for (int s = 0; s < plan.segments(); ++s) {
    const std::int64_t begin = settings.segments[static_cast<std::size_t>(s)];
    core::require(begin < plan.segment_end(s) && begin % alignment.slice == 0,
                  "shard plan: a segment is empty or does not begin with a slice");
  }
  if (!settings.reproducible) return;
  core::require(std::has_single_bit(static_cast<std::uint64_t>(settings.chunks)) &&
                    std::has_single_bit(static_cast<unsigned>(plan.ranks)) && settings.chunks >= plan.ranks,
                "reproducible sums: chunks and ranks must be powers of two, with no more ranks than chunks");
}

}  // namespace

core::ParameterStore::Alignment shard_alignment(bool reproducible, int ranks) {
  // A piece of a bucket begins at a cache line; in reproducible mode no block of the norm has two owners.
  if (reproducible) return {ops::norm_block, ops::norm_block * ranks};
  return {cache_line * ranks, cache_line * ranks};
}

std::int64_t ShardPlan::segment_end(int segment) const {
  const auto next = static_cast<std::size_t>(segment) + 1;
  return next < settings.segments.size() ? settings.segments[next] : arena;
}

ShardPlan plan_shards(const core::ParameterStore& parameters, const ShardSettings& settings, int ranks) {
  ShardPlan plan;
  plan.settings = settings;
  plan.ranks = ranks;
  plan.arena = parameters.arena_size();
  check(plan);
  if (settings.reproducible) {
    plan.buckets = {{0, plan.arena, 0}};
    const std::int64_t chunks = settings.chunks / ranks;
    plan.tree_levels = std::bit_width(static_cast<std::uint64_t>(chunks)) - 1;
    if (plan.tree_levels == 0 && ranks > 1) plan.tree_levels = 1;  // what the other ranks send
  } else {
    const std::int64_t unit = cache_line * ranks;
    plan.buckets = cut(plan, std::max<std::int64_t>(1, settings.bucket_elements / unit) * unit);
  }
  plan.optimizer_elements = plan.shares_update() ? plan.arena / ranks : plan.arena;
  return plan;
}

std::vector<std::pair<std::string, std::int64_t>> ShardPlan::memory() const {
  std::vector<std::pair<std::string, std::int64_t>> bytes = {
      {"parameters", arena * float_bytes},
      {"gradients", arena * float_bytes},
      {"optimizer states", 2 * optimizer_elements * float_bytes}};
  const std::int64_t sums = settings.reproducible ? tree_levels * arena : ranks > 1 ? arena / ranks : 0;
  if (sums > 0) bytes.emplace_back("partial sums", sums * float_bytes);
  return bytes;
}

std::string ShardPlan::describe() const {
  if (ranks == 1) return "optimizer states on the one rank";
  const std::string group = " by " + std::to_string(ranks) + " ranks";
  return settings.zero == 0 ? "ZeRO 0: every rank keeps all optimizer states"
                            : "ZeRO 1: optimizer states shared" + group;
}

}  // namespace bert_hpc::train
