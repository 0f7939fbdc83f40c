// BatchPlan: which samples form one update, and which replica processes them in which micro-batch. It is a pure
// function of the samples and their lengths (data/batch_plan.hpp) and equal on every rank, so ranks never exchange
// sizes.
//
// The plan nests three levels of contiguous ranges over one list: a chunk is a range of samples (ordered by (length,
// index), or with padding as they were drawn); a micro-batch is a range of chunks; a replica is a range of
// micro-batches. Three arrays of boundaries therefore describe it completely.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bert_hpc::core {

struct PlannedSample {
  std::int64_t index = 0;                                 ///< in the data set
  std::int32_t length = 0;                                ///< real tokens
  std::int32_t padding = 0;                               ///< padding tokens that extend it in its micro-batch
  std::int32_t rows() const { return length + padding; }  ///< computed tokens
  bool operator==(const PlannedSample&) const = default;
};

struct BatchPlan {
  std::vector<PlannedSample> samples;       ///< of the global batch; without padding each chunk by (length, index)
  std::vector<std::int32_t> chunk_begin;    ///< (chunks + 1): chunk c is samples [chunk_begin[c], chunk_begin[c + 1])
  std::vector<std::int32_t> micro_begin;    ///< (micro-batches + 1): chunks of each micro-batch
  std::vector<std::int32_t> replica_begin;  ///< (replicas + 1): micro-batches of each replica

  std::int64_t sequences() const { return static_cast<std::int64_t>(samples.size()); }
  int chunks() const { return static_cast<int>(chunk_begin.size()) - 1; }
  int micro_batches() const { return static_cast<int>(micro_begin.size()) - 1; }  ///< of all replicas
  int replicas() const { return static_cast<int>(replica_begin.size()) - 1; }

  /// Samples of a chunk; may be empty.
  std::span<const PlannedSample> chunk(int c) const { return run(at(chunk_begin, c), at(chunk_begin, c + 1)); }
  /// Samples of a micro-batch (numbered over all replicas); may be empty.
  std::span<const PlannedSample> micro_batch(int m) const {
    return run(at(chunk_begin, at(micro_begin, m)), at(chunk_begin, at(micro_begin, m + 1)));
  }
  /// Samples of a replica; may be empty.
  std::span<const PlannedSample> replica(int r) const {
    return run(at(chunk_begin, at(micro_begin, at(replica_begin, r))),
               at(chunk_begin, at(micro_begin, at(replica_begin, r + 1))));
  }

 private:
  static std::int32_t at(const std::vector<std::int32_t>& begins, int i) { return begins[static_cast<std::size_t>(i)]; }
  std::span<const PlannedSample> run(std::int32_t begin, std::int32_t end) const {
    return {samples.data() + begin, static_cast<std::size_t>(end - begin)};
  }
};

}  // namespace bert_hpc::core
