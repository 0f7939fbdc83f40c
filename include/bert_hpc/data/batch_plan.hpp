// Cuts a global batch into chunks, micro-batches and replicas (core/batch_plan.hpp): arithmetic only, no ranks needed.
//
// Work of a sequence is length·(6·hidden + length): its products with weights grow with the length, attention with its
// square. Sequences are given out longest first, each to the part with the least work so far (Graham 1969) among those
// that have room within their limit of tokens, so that memory planned before the first step suffices for every step.
// Equal parts matter most to pipelines: stages work on neighbouring micro-batches at once and wait for each other.
//
// With padding the plan is that of a program that pads: sequences stay in the order in which they were drawn, or are
// sorted by length where the run asks for it, and parts are runs of equal numbers of sequences. Limits and bounds of
// tokens then count computed tokens, padding included.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "bert_hpc/core/batch_plan.hpp"
#include "bert_hpc/data/sample_units.hpp"

namespace bert_hpc::data {

/// How far the sequences of a micro-batch are extended by padding: not at all, to its longest one, or to
/// PaddingOptions::length.
enum class Padding { none, longest, max };

struct PaddingOptions {
  Padding kind = Padding::none;
  std::int32_t length = 0;  ///< with Padding::max: computed tokens of every sequence, no less than the data's longest
  bool sorts = false;       ///< with padding: sequences of a batch by (length, index), not as they were drawn

  bool pads() const { return kind != Padding::none; }
  /// Computed tokens of a sequence of a micro-batch whose longest has `longest` real ones.
  std::int64_t rows(std::int64_t longest) const { return kind == Padding::max ? length : longest; }
};

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
  PaddingOptions padding{};
};

/// Most tokens, with padding, of what a step draws as one: a sequence of at most `longest` tokens, or without null one
/// of `units`.
std::int64_t most_rows(const PaddingOptions& padding, std::int64_t longest, const SampleUnits* units);

/// What no plan of these options exceeds. Memory is planned from it.
struct BatchPlanBounds {
  std::int64_t replica_tokens = 0;
  std::int64_t replica_sequences = 0;
  std::int64_t replica_micro_batches = 0;
  std::int64_t micro_tokens = 0;     ///< of one micro-batch
  std::int64_t micro_sequences = 0;  ///< of one micro-batch
};

/// Throws Error(input) listing what cannot be, in the input file's key names. `max_length`: most_rows() of the data.
void check(const BatchPlanOptions& options, std::int64_t max_length);

/// Bounds for checked options.
BatchPlanBounds bounds(const BatchPlanOptions& options, std::int64_t max_length);

/// Makes plans without allocating, for plans that were reserved.
class BatchPlanner {
 public:
  /// `options` were checked. `units`: what samples are in plan(), if they are not sequences; must outlive the planner.
  explicit BatchPlanner(const BatchPlanOptions& options, const SampleUnits* units = nullptr)
      : options_(options), units_(units) {}

  /// Takes the memory that the largest plan of `most_samples` samples needs. max_length as it was checked.
  void reserve(std::int64_t most_samples, std::int64_t max_length, core::BatchPlan& plan);

  /// samples, lengths (sequences ≤ global_batch); samples are distinct, lengths at least 1 and at most the checked
  /// max_length. In any order: the plan depends on the set alone, but with padding that is not sorted on the order too.
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

  std::int64_t sequences_of(const core::PlannedSample& sample) const {
    return units_ != nullptr ? units_->samples_of(sample.index) : 1;
  }
  std::int64_t longest_of(const core::PlannedSample& sample) const {
    return units_ != nullptr ? units_->longest_of(sample.index) : sample.length;
  }
  /// Computed tokens of samples [begin, end) as one micro-batch.
  std::int64_t rows_of(const core::BatchPlan& plan, std::int32_t begin, std::int32_t end) const;
  void plan_chunks(core::BatchPlan& plan);
  void plan_padded_layout(core::BatchPlan& plan);
  void plan_layout(core::BatchPlan& plan);
  /// Orders samples [begin, end), which come by (length, index), by part, each part by (length, index), and appends the
  /// parts' ends. False, and nothing changed, if they find no room.
  bool share_out(core::BatchPlan& plan, std::int32_t begin, std::int32_t end, std::int64_t parts,
                 const PartLimit& limit, std::vector<std::int32_t>& boundaries);
  /// With padding: appends the ends of as few runs of samples [begin, end) as options_.micro_tokens allows.
  void cut_by_rows(const core::BatchPlan& plan, std::int32_t begin, std::int32_t end,
                   std::vector<std::int32_t>& boundaries) const;

  BatchPlanOptions options_;
  const SampleUnits* units_;
  std::int64_t longest_ = 1;                  // sequence of this batch
  std::vector<Part> parts_;                   // (parts)
  std::vector<std::int32_t> part_of_;         // (sequences)
  std::vector<std::int32_t> begins_;          // (parts + 1)
  std::vector<core::PlannedSample> by_part_;  // (sequences)
  std::vector<std::int32_t> replicas_;        // (replicas + 1): samples of each replica
};

/// Sets the padding of each sequence in its micro-batch. For plans of sequences: SampleUnits::expand() comes before.
void pad(core::BatchPlan& plan, const PaddingOptions& padding);

/// One plan of sequences with their padding, for tests and one-off use. `units` as the planner has them.
core::BatchPlan plan_batch(std::span<const std::int64_t> samples, std::span<const std::int32_t> lengths,
                           const BatchPlanOptions& options, SampleUnits* units = nullptr);

}  // namespace bert_hpc::data
