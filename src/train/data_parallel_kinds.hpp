// The implementations of DataParallel, for make_data_parallel(). Private to train.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/train/data_parallel.hpp"

namespace bert_hpc::train {

class OverlappedDataParallel : public DataParallel {
 public:
  OverlappedDataParallel(comm::Communicator& group, core::ParameterStore& parameters, const ShardPlan& plan,
                         const NormScope& scope);
  void begin_step(std::int64_t micro_batches, std::int64_t most) override;
  void finished(int segment, std::int64_t begin) override;
  void end_micro_batch(int segment) override;
  void end_step() override;

 private:
  /// `sums` holds this rank's pieces of all buckets in sequence; empty if the gradients themselves become the sums.
  OverlappedDataParallel(comm::Communicator& group, core::ParameterStore& parameters, const ShardPlan& plan,
                         const NormScope& scope, core::Buffer<float> sums, core::Buffer<std::uint8_t> marks);
  void start();

  core::Buffer<float> accumulators_;
  core::Buffer<std::uint8_t> marks_;     // of the sums
  std::vector<OwnedRange> pieces_;       // by bucket
  std::vector<std::int64_t> remaining_;  // by segment: remaining micro-batches of the step
  std::int64_t micro_batches_ = 0;
  std::size_t next_ = 0;  // buckets from this index on are being reduced
};

class ReproducibleDataParallel : public DataParallel {
 public:
  ReproducibleDataParallel(comm::Communicator& group, core::ParameterStore& parameters, const ShardPlan& plan,
                           const NormScope& scope);
  void begin_step(std::int64_t micro_batches, std::int64_t most) override;
  void finished(int, std::int64_t) override {}
  void end_micro_batch(int segment) override;
  void end_step() override;

 private:
  std::span<float> whole(std::size_t level) const;

  std::int64_t chunks_;             // of this rank
  std::vector<std::int64_t> done_;  // by segment: chunks in this step
  std::vector<core::Buffer<float>> levels_;
};

class ShardedDataParallel : public DataParallel {
 public:
  ShardedDataParallel(comm::Communicator& group, core::ParameterStore& parameters, const ShardPlan& plan,
                      const NormScope& scope);
  void begin_step(std::int64_t micro_batches, std::int64_t most) override;
  void finished(int segment, std::int64_t begin) override;
  void end_micro_batch(int segment) override;
  void end_step() override;

 private:
  /// The state of a segment's backward pass.
  struct Pass {
    std::size_t first_unit = 0, end_unit = 0;
    std::size_t unfinished = 0;  // units before this one are not yet complete in this micro-batch
    std::int64_t round = 0;      // completed micro-batches
    std::span<float> ring;
    core::Buffer<float> staged;  // received pieces, at the ring's offsets divided by the number of ranks
    std::int64_t at = 0;         // offset of the next unit in the ring
  };
  /// A bucket being reduced.
  struct Flight {
    comm::RequestHandle request;
    std::size_t bucket = 0;
    std::span<float> data;    // in the ring
    std::span<float> staged;  // this rank's piece
    bool first = true;        // replaces the sums; otherwise it is added to them
  };
  ShardedDataParallel(comm::Communicator& group, core::ParameterStore& parameters, const ShardPlan& plan,
                      const NormScope& scope, core::Buffer<float> sums);
  void assign_ring_memory(Pass& pass);
  void reduce(Pass& pass, const ShardPlan::Unit& unit);
  void land(Flight& flight);
  void land_within(std::span<const float> range);

  core::Buffer<float> accumulators_;
  std::vector<OwnedRange> pieces_;  // by bucket
  std::vector<Pass> passes_;        // by segment
  std::vector<std::span<float>> unit_gradients_;
  std::span<float> held_;
  std::vector<Flight> flights_;
  std::int64_t rounds_ = 0;  // maximum number of micro-batches over ranks
};

/// This rank's piece of every bucket. The sums are stored in sequence at `sums` with their known zeros at `marks`, or
/// in the gradients.
std::vector<OwnedRange> pieces_of(const ShardPlan& plan, int rank, const core::ParameterStore& parameters, float* sums,
                                  std::uint8_t* marks = nullptr);

}  // namespace bert_hpc::train
