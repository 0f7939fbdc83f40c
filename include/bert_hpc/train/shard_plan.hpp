// How the gradients, sums and optimizer states of the trainable parameters, the elements [0, trainable) of an arena,
// are shared out over a data-parallel group, as plain data: it decides what every rank owns, what is sent in which
// pieces, and how much memory that takes, before anything is allocated. The stages are those of Rajbhandari et al.,
// "ZeRO: memory optimizations toward training trillion parameter models" (2020): 0 shares nothing out, 1 the
// optimizer's states and work, 2 the gradients too.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::train {

struct ShardSettings {
  bool reproducible = false;
  int zero = 1;          ///< 1 costs what 0 costs in messages, and divides memory and work of the update
  bool offload = false;  ///< the optimizer keeps its states in host memory and updates there
  std::vector<ops::StateTensor> states{};  ///< that the optimizer keeps
  std::int64_t chunks = 1;                 ///< reproducible: of a global batch
  std::int64_t bucket_elements = 0;        ///< fast: of one reduce-scatter, about; 0: usual_bucket_elements()
  bool gpu = core::is_gpu_build();         ///< messages have the sizes of GPUs; of a plan: of its machine
  /// Offsets of the segments of the trainable elements, ascending from 0. A segment is what goes through backward as
  /// one: a virtual stage of a pipeline. One without trainable parameters is empty.
  std::vector<std::int64_t> segments = {0};
  /// Name of a parameter that has a copy, if the parameters' own pieces must lie the same way on two stages.
  /// Buckets begin and end with it and with its copy.
  std::string tied{};

  // zero = 2 alone:
  /// Where the parts of a segment begin whose gradients backward finishes at once, ascending, segments' begins included
  /// (what finished() is called with).
  std::vector<std::int64_t> units{};
  /// The first unit gets gradients from the head too: they are kept until the end of the step.
  bool first_unit_held = false;
};

/// Elements of one reduce-scatter where none are given, for an arena of so many. On CPUs small ones, which overlap with
/// backward from its first layers on: a message costs microseconds. Between GPUs a message costs as long as some
/// million elements take, and so do the kernels of an update: about a dozen of 16 to 128 MiB. Pure.
std::int64_t usual_bucket_elements(std::int64_t arena, bool gpu);

/// For a group of `ranks`: what a parameter store must be aligned to. `blocks`: the optimizer keeps states in blocks,
/// none of which may have two owners.
core::ParameterStore::Alignment shard_alignment(bool reproducible, int ranks, bool blocks = false);

/// Whether a group of `ranks` shards its gradients, so that parameter stores hold values alone. Reproducible sums need
/// them whole.
bool shards_gradients(const ShardSettings& settings, int ranks);

/// Memory of a store for these settings: what the group's operations work on is memory of the group.
core::ParameterStore::Memory shard_memory(const ShardSettings& settings, comm::Communicator& group);

struct ShardPlan {
  /// What is reduced and gathered at once: a range within one segment, in equal pieces, piece r for rank r.
  struct Bucket {
    std::int64_t begin = 0, size = 0;
    int segment = 0;
  };

  ShardSettings settings;
  int ranks = 1;
  std::int64_t arena = 0;               ///< elements, those of frozen parameters included
  std::int64_t trainable = 0;           ///< elements from the begin that are trained
  std::int64_t marked = 0;              ///< elements from the begin whose known zeros are marked
  std::vector<Bucket> buckets;          ///< ascending, without gaps
  std::int64_t tree_levels = 0;         ///< reproducible: arenas of partial sums
  std::int64_t optimizer_elements = 0;  ///< owned by one rank
  std::int64_t block_elements = 0;      ///< of these, those whose states are kept in blocks, where any are; about
  std::int64_t gradient_bytes = 0;      ///< of all gradients, where they are not sharded

  /// zero = 2: what is reduced as soon as backward has finished it. Its gradients live in a ring of its segment's until
  /// then; those of a held unit in memory of their own.
  struct Unit {
    std::int64_t begin = 0, end = 0;
    int segment = 0;
    bool held = false;
    std::size_t first_bucket = 0, end_bucket = 0;
  };
  std::vector<Unit> units;         ///< ascending; empty where gradients are not sharded
  std::vector<std::int64_t> ring;  ///< by segment: elements
  std::int64_t held = 0;           ///< elements

  std::int64_t segment_end(int segment) const;
  int segments() const { return static_cast<int>(settings.segments.size()); }
  /// Whether a rank updates a part only, so that the parts must be gathered afterwards.
  bool shares_update() const { return ranks > 1 && settings.zero > 0; }
  /// Whether there is no arena of gradients.
  bool shards_gradients() const { return train::shards_gradients(settings, ranks); }

  /// Bytes of one rank's optimizer states.
  std::int64_t state_bytes() const;
  /// Bytes of one rank by what they are for; parameters and gradients included.
  std::vector<std::pair<std::string, std::int64_t>> memory() const;
  /// For the banner, e.g. "ZeRO 1 of 4 ranks".
  std::string describe() const;
};

/// `parameters` may be a layout alone; it is aligned as shard_alignment() says. Throws Error(internal) where not.
ShardPlan plan_shards(const core::ParameterStore& parameters, const ShardSettings& settings, int ranks);

}  // namespace bert_hpc::train
