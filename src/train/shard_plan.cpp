#include "bert_hpc/train/shard_plan.hpp"

#include <algorithm>
#include <bit>
#include <sstream>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/train/optimizer_states.hpp"

namespace bert_hpc::train {
namespace {

using core::floats_of_cache_line;

constexpr std::int64_t float_bytes = sizeof(float);

/// Offsets at which buckets must begin: segments, both ends of tied parameters, and the end of marks of known zeros.
std::vector<std::int64_t> cuts_of(const core::ParameterStore& parameters, const ShardPlan& plan) {
  std::vector<std::int64_t> cuts = plan.settings.segments;
  for (const ShardPlan::Unit& unit : plan.units) cuts.push_back(unit.begin);
  const std::string& tied = plan.settings.tied;
  const std::vector<core::ParameterSlice>& slices = parameters.slices();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (tied.empty() || !slices[i].trainable || (slices[i].name != tied && slices[i].copy_of != tied)) continue;
    cuts.push_back(slices[i].offset);
    if (i + 1 < slices.size()) cuts.push_back(slices[i + 1].offset);
  }
  cuts.push_back(plan.marked);
  cuts.push_back(plan.trainable);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

std::vector<ShardPlan::Bucket> cut(const core::ParameterStore& parameters, const ShardPlan& plan, std::int64_t size) {
  std::vector<ShardPlan::Bucket> buckets;
  const std::vector<std::int64_t> cuts = cuts_of(parameters, plan);
  int segment = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    while (cuts[i] == plan.segment_end(segment)) ++segment;
    for (std::int64_t begin = cuts[i]; begin < cuts[i + 1]; begin += size) {
      buckets.push_back({begin, std::min(size, cuts[i + 1] - begin), segment});
    }
  }
  return buckets;
}

std::vector<ShardPlan::Unit> units_of(const ShardPlan& plan) {
  const ShardSettings& settings = plan.settings;
  std::vector<ShardPlan::Unit> units;
  int segment = -1;
  for (std::size_t i = 0; i < settings.units.size(); ++i) {
    const std::int64_t begin = settings.units[i];
    const std::int64_t end = i + 1 < settings.units.size() ? settings.units[i + 1] : plan.trainable;
    while (segment + 1 < plan.segments() && begin == settings.segments[static_cast<std::size_t>(segment + 1)])
      ++segment;
    core::require(begin < end && segment >= 0 && end <= plan.segment_end(segment),
                  "shard plan: the units are not the parts of the segments");
    units.push_back({begin, end, segment, i == 0 && settings.first_unit_held, 0, 0});
  }
  while (segment + 1 < plan.segments() && settings.segments[static_cast<std::size_t>(segment + 1)] == plan.trainable) {
    ++segment;  // empty
  }
  core::require(segment + 1 == plan.segments(), "shard plan: sharded gradients need units");
  return units;
}

/// Room for each unit alone, and for each two neighbours (one being reduced while backward makes the next) but for the
/// segment's first unit: the embeddings are several times the others, and what is behind them has nothing to wait for.
std::vector<std::int64_t> rings_of(const ShardPlan& plan) {
  std::vector<std::int64_t> rings(plan.settings.segments.size(), 0);
  for (std::size_t i = 0; i < plan.units.size(); ++i) {
    const ShardPlan::Unit& unit = plan.units[i];
    std::int64_t& ring = rings[static_cast<std::size_t>(unit.segment)];
    if (!unit.held) ring = std::max(ring, unit.end - unit.begin);
    const bool second_or_later = i > 0 && plan.units[i - 1].segment == unit.segment;
    const bool has_next = i + 1 < plan.units.size() && plan.units[i + 1].segment == unit.segment;
    if (second_or_later && has_next) ring = std::max(ring, plan.units[i + 1].end - unit.begin);
  }
  return rings;
}

void plan_units(ShardPlan& plan) {
  for (ShardPlan::Unit& unit : plan.units) {
    const auto at = [&](std::int64_t offset) {
      return static_cast<std::size_t>(
          std::lower_bound(plan.buckets.begin(), plan.buckets.end(), offset,
                           [](const ShardPlan::Bucket& bucket, std::int64_t begin) { return bucket.begin < begin; }) -
          plan.buckets.begin());
    };
    unit.first_bucket = at(unit.begin);
    unit.end_bucket = at(unit.end);
    if (unit.held) plan.held += unit.end - unit.begin;
  }
  plan.ring = rings_of(plan);
}

void check(const ShardPlan& plan) {
  const ShardSettings& settings = plan.settings;
  const core::ParameterStore::Alignment alignment =
      shard_alignment(settings.reproducible, plan.ranks, ops::have_blocks(settings.states));
  core::require(plan.trainable % alignment.arena == 0, "shard plan: the arena does not divide into equal pieces");
  core::require(!settings.segments.empty() && settings.segments.front() == 0, "shard plan: segments begin at 0");
  for (int s = 0; s < plan.segments(); ++s) {
    const std::int64_t begin = settings.segments[static_cast<std::size_t>(s)];
    core::require(begin <= plan.segment_end(s) && begin % alignment.slice == 0,
                  "shard plan: segments do not ascend or one does not begin with a slice");
  }
  if (!settings.reproducible) return;
  core::require(std::has_single_bit(static_cast<std::uint64_t>(settings.chunks)) &&
                    std::has_single_bit(static_cast<unsigned>(plan.ranks)) && settings.chunks >= plan.ranks,
                "reproducible sums: chunks and ranks must be powers of two, with no more ranks than chunks");
}

}  // namespace

std::int64_t usual_bucket_elements(std::int64_t arena, bool gpu) {
  if (!gpu) return std::int64_t{1} << 19;
  return std::clamp(arena / 12, std::int64_t{1} << 22, std::int64_t{1} << 25);
}

core::ParameterStore::Alignment shard_alignment(bool reproducible, int ranks, bool blocks) {
  // A piece of a bucket begins at a cache line; in reproducible mode no block of the norm has two owners.
  static_assert(ops::norm_block % ops::dynamic8::block == 0);
  if (reproducible) return {ops::norm_block, ops::norm_block * ranks};
  const std::int64_t piece = blocks ? ops::dynamic8::block : floats_of_cache_line;
  return {piece * ranks, piece * ranks};
}

bool shards_gradients(const ShardSettings& settings, int ranks) {
  return settings.zero == 2 && ranks > 1 && !settings.reproducible;
}

core::ParameterStore::Memory shard_memory(const ShardSettings& settings, comm::Communicator& group) {
  core::ParameterStore::Memory memory;
  memory.zero_lines = !settings.reproducible && settings.zero == 1;
  if (group.size() == 1) return memory;
  const auto from = [&group](comm::Sharing sharing) {
    return [&group, sharing](std::size_t bytes) -> void* { return group.allocate(bytes, sharing).data(); };
  };
  // If every rank updates all parameters, each needs its own.
  if (settings.zero > 0) memory.values = from(comm::Sharing::replicated);
  if (!settings.reproducible) memory.gradients = from(comm::Sharing::exposed);
  return memory;
}

std::int64_t ShardPlan::segment_end(int segment) const {
  const auto next = static_cast<std::size_t>(segment) + 1;
  return next < settings.segments.size() ? settings.segments[next] : trainable;
}

ShardPlan plan_shards(const core::ParameterStore& parameters, const ShardSettings& settings, int ranks) {
  ShardPlan plan;
  plan.settings = settings;
  plan.ranks = ranks;
  plan.arena = parameters.arena_size();
  plan.trainable = parameters.trainable_size();
  plan.marked = parameters.marked();
  plan.gradient_bytes = parameters.gradient_bytes();
  check(plan);
  if (settings.reproducible) {
    if (plan.trainable > 0) plan.buckets = {{0, plan.trainable, 0}};
    const std::int64_t chunks = settings.chunks / ranks;
    plan.tree_levels = std::bit_width(static_cast<std::uint64_t>(chunks)) - 1;
    if (plan.tree_levels == 0 && ranks > 1) plan.tree_levels = 1;  // what the other ranks send
  } else {
    const std::int64_t unit = shard_alignment(false, ranks, ops::have_blocks(settings.states)).arena;
    if (plan.shards_gradients()) plan.units = units_of(plan);
    const std::int64_t elements =
        settings.bucket_elements > 0 ? settings.bucket_elements : usual_bucket_elements(plan.trainable, settings.gpu);
    const std::int64_t size =
        plan.shards_gradients() ? plan.trainable : std::max<std::int64_t>(1, elements / unit) * unit;
    plan.buckets = cut(parameters, plan, size);
    plan_units(plan);
  }
  const int owners = plan.shares_update() ? ranks : 1;
  plan.optimizer_elements = plan.trainable / owners;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    if (slice.trainable && is_kept_in_blocks(slice)) plan.block_elements += slice.size;
  }
  plan.block_elements = std::min(plan.optimizer_elements, plan.block_elements / owners);
  return plan;
}

std::int64_t ShardPlan::state_bytes() const {
  return ops::bytes_of_states(settings.states, optimizer_elements, block_elements);
}

std::vector<std::pair<std::string, std::int64_t>> ShardPlan::memory() const {
  std::vector<std::pair<std::string, std::int64_t>> bytes = {{"parameters", arena * float_bytes}};
  const std::int64_t states = state_bytes();
  if (shards_gradients()) {
    std::int64_t ring_elements = held;
    for (const std::int64_t elements : ring) ring_elements += elements + elements / ranks;
    bytes.emplace_back("gradients, own part", trainable / ranks * float_bytes);
    bytes.emplace_back("gradients in the making", ring_elements * float_bytes);
  } else {
    bytes.emplace_back("gradients", gradient_bytes + marked / floats_of_cache_line);
  }
  if (!settings.offload) bytes.emplace_back("optimizer states", states);
  const std::int64_t sums = settings.reproducible ? tree_levels * trainable : ranks > 1 ? trainable / ranks : 0;
  if (sums > 0 && !shards_gradients()) bytes.emplace_back("partial sums", sums * float_bytes);
  // Beside the states: the parameters that are updated there, and their gradients.
  const std::int64_t others = 2 * optimizer_elements * float_bytes;
  if (settings.offload) bytes.emplace_back("optimizer states and parameters (host)", states + others);
  return bytes;
}

std::string ShardPlan::describe() const {
  std::ostringstream text;
  if (ranks == 1) {
    text << "optimizer states on one rank";
  } else if (settings.zero == 0) {
    text << "ZeRO 0: every rank keeps all optimizer states";
  } else {
    text << "ZeRO " << settings.zero << " over " << ranks << " ranks: optimizer states"
         << (shards_gradients() ? " and gradients sharded" : " sharded");
    if (settings.zero == 2 && !shards_gradients()) text << "; gradients whole, as reproducible sums need them";
    if (held > 0) text << "; gradients of the tied embeddings whole until the end of a step";
  }
  if (ranks > 1 && !settings.reproducible) {
    std::int64_t largest = 0;
    for (const Bucket& bucket : buckets) largest = std::max(largest, bucket.size);
    text << "; gradients in " << core::counted(static_cast<std::int64_t>(buckets.size()), "message") << " of at most "
         << core::format_bytes(largest * float_bytes);
  }
  if (settings.offload) text << "; updated in host memory";
  return text.str();
}

}  // namespace bert_hpc::train
