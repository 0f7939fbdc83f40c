// Reduces buckets while backward continues. Buckets start in the same order on every rank, from the arena's end to its
// beginning, as collective operations require, independent of the order in which segments finish.
#include <algorithm>

#include "bert_hpc/ops/flat.hpp"
#include "data_parallel_kinds.hpp"

namespace bert_hpc::train {

OverlappedDataParallel::OverlappedDataParallel(comm::Communicator& group, core::ParameterStore& parameters,
                                               const ShardPlan& plan, const NormScope& scope)
    : OverlappedDataParallel(
          group, parameters, plan, scope, core::Buffer<float>(plan.ranks > 1 ? plan.trainable / plan.ranks : 0),
          core::Buffer<std::uint8_t>(plan.ranks > 1 ? plan.marked / plan.ranks / ops::TouchedRows::line : 0)) {}

OverlappedDataParallel::OverlappedDataParallel(comm::Communicator& group, core::ParameterStore& parameters,
                                               const ShardPlan& plan, const NormScope& scope, core::Buffer<float> sums,
                                               core::Buffer<std::uint8_t> marks)
    : DataParallel(group, parameters, plan, scope,
                   pieces_of(plan, group.rank(), parameters, sums.data(), marks.data())),
      accumulators_(std::move(sums)),
      marks_(std::move(marks)),
      pieces_(pieces_of(plan, group.rank(), parameters, accumulators_.data(), marks_.data())),
      remaining_(plan.settings.segments.size()) {}

void OverlappedDataParallel::begin_step(std::int64_t micro_batches, std::int64_t) {
  std::fill(remaining_.begin(), remaining_.end(), micro_batches);
  micro_batches_ = micro_batches;
  next_ = pieces_.size();
  squares_ = 0;
}

void OverlappedDataParallel::finished(int segment, std::int64_t begin) {
  // Only the last micro-batch's gradients are final.
  if (plan_.ranks == 1 || remaining_[static_cast<std::size_t>(segment)] != 1) return;
  while (next_ > 0) {
    const ShardPlan::Bucket& bucket = plan_.buckets[next_ - 1];
    const bool final =
        bucket.segment == segment ? bucket.begin >= begin : remaining_[static_cast<std::size_t>(bucket.segment)] == 0;
    if (!final) break;
    start();
  }
  for (const auto& request : requests_) request->progress();  // lets MPI move data between two layers
}

void OverlappedDataParallel::end_micro_batch(int segment) {
  std::int64_t& remaining = remaining_[static_cast<std::size_t>(segment)];
  if (measures_ && remaining == micro_batches_) {
    const std::int64_t begin = plan_.settings.segments[static_cast<std::size_t>(segment)];
    add_squares(begin, parameters_.gradients().subspan(static_cast<std::size_t>(begin),
                                                       static_cast<std::size_t>(plan_.segment_end(segment) - begin)));
  }
  --remaining;
}

void OverlappedDataParallel::start() {
  --next_;
  const OwnedRange& piece = pieces_[next_];
  const ShardPlan::Bucket& bucket = plan_.buckets[next_];
  const std::span<float> mine(piece.gradient, static_cast<std::size_t>(piece.size));
  if (piece.marks == nullptr) {
    requests_.push_back(group_.start_reduce_scatter(gradients(bucket), mine));
  } else {
    requests_.push_back(
        group_.start_reduce_scatter(gradients(bucket), mine, {parameters_.marks(bucket.begin), piece.marks}));
  }
}

void OverlappedDataParallel::end_step() {
  while (plan_.ranks > 1 && next_ > 0) start();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    requests_[i]->wait();
    if (summed_ && !complete_ && plan_.shares_update()) summed_(pieces_.size() - 1 - i);
  }
  requests_.clear();
  if (complete_) {
    complete_(pieces_);
    if (plan_.shares_update()) report_summed();
  }
  if (plan_.ranks == 1) return report_summed();
  if (plan_.shares_update()) return;
  // Every rank updates all parameters: gather the pieces into complete sums.
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const OwnedRange& piece = pieces_[i];
    const auto size = static_cast<std::size_t>(piece.size);
    ops::copy({piece.gradient, size}, parameters_.gradients().subspan(static_cast<std::size_t>(piece.begin), size));
    requests_.push_back(group_.start_all_gather(gradients(plan_.buckets[i])));
  }
  for (const auto& request : requests_) request->wait();
  requests_.clear();
  report_summed();
}

}  // namespace bert_hpc::train
