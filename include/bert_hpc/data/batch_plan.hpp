// Cuts a global batch into chunks, micro-batches and replicas (core/batch_plan.hpp): arithmetic only, no ranks needed.
//
// Work of a sequence is length·(6·hidden + length): its products with weights grow with the length, attention with its
// square. Sequences are given out longest first, each to the part with the least work so far (Graham 1969) among those
// that have room within their limit of tokens, so that memory planned before the first step suffices for every step.
// Equal parts matter most to pipelines: stages work on neighbouring micro-batches at once and wait for each other.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "bert_hpc/core/batch_plan.hpp"

namespace bert_hpc::data {

struct BatchPlanOptions {
  std::int64_t global_batch = 1;  ///< most sequences in an update
  std::int64_t hidden = 1;        ///< the model's hidden size
  int replicas = 1;
  /// Reproducible sums: each micro-batch is one chunk and replica r holds chunks [r·C/R, (r + 1)·C/R) of `chunks` C.
  bool reproducible = false;
  /// Cut of the batch that does not depend on the layout; 0: as fine as the layout needs, one chunk a micro-batch.
  int chunks = 0;
  // Size of a micro-batch: at most one of these is positive; none: a replica's share is one micro-batch.
  std::int64_t micro_tokens = 0;     ///< most tokens in a micro-batch
  std::int64_t micro_sequences = 0;  ///< most sequences in a micro-batch
  std::int64_t micro_batches = 0;    ///< micro-batches of each replica
};

/// What no plan of these options exceeds. Memory is planned from it.
struct BatchPlanBounds {
  std::int64_t replica_tokens = 0;
  std::int64_t replica_sequences = 0;
  std::int64_t replica_micro_batches = 0;
  std::int64_t micro_tokens = 0;     ///< of one micro-batch
  std::int64_t micro_sequences = 0;  ///< of one micro-batch
};

/// Throws Error(input) listing what cannot be, in the input file's key names. `max_length`: the data's longest
/// sequence.
void check(const BatchPlanOptions& options, std::int64_t max_length);

/// Bounds for checked options.
BatchPlanBounds bounds(const BatchPlanOptions& options, std::int64_t max_length);

/// Makes plans without allocating, for plans that were reserved.
class BatchPlanner {
 public:
  /// `options` were checked.
  explicit BatchPlanner(const BatchPlanOptions& options) : options_(options) {}

  /// Takes the memory that the largest plan of `most_samples` samples needs. max_length as it was checked.
  void reserve(std::int64_t most_samples, std::int64_t max_length, core::BatchPlan& plan);

  /// samples, lengths (sequences ≤ global_batch); samples are distinct, lengths at least 1 and at most the checked
  /// max_length. In any order: the plan depends on the set alone.
  void plan(std::span<const std::int64_t> samples, std::span<const std::int32_t> lengths, core::BatchPlan& plan);

 private:
  struct Part {
    std::int64_t work = 0, tokens = 0, sequences = 0;
    std::int32_t number = 0;
  };
  /// The most that a part may hold.
  struct PartLimit {
    std::int64_t tokens = std::numeric_limits<std::int64_t>::max();
    std::int64_t sequences = std::numeric_limits<std::int64_t>::max();
  };

  void plan_chunks(core::BatchPlan& plan);
  void plan_layout(core::BatchPlan& plan);
  /// Orders samples [begin, end), which come by (length, index), by part, each part by (length, index), and appends the
  /// parts' ends. False, and nothing changed, if they find no room.
  bool share_out(core::BatchPlan& plan, std::int32_t begin, std::int32_t end, std::int64_t parts,
                 const PartLimit& limit, std::vector<std::int32_t>& boundaries);

  BatchPlanOptions options_;
  std::int64_t longest_ = 1;                 // sequence of this batch
  std::vector<Part> parts_;                  // (parts)
  std::vector<std::int32_t> part_of_;        // (sequences)
  std::vector<std::int32_t> begins_;         // (parts + 1)
  std::vector<core::PlannedSample> placed_;  // (sequences)
  std::vector<std::int32_t> replicas_;       // (replicas + 1): samples of each replica
};

/// One plan, for tests and one-off use.
core::BatchPlan plan_batch(std::span<const std::int64_t> samples, std::span<const std::int32_t> lengths,
                           const BatchPlanOptions& options);

}  // namespace bert_hpc::data
