// Sums along one binary tree over the chunks of the global batch.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "data_parallel_kinds.hpp"

namespace bert_hpc::train {

ReproducibleDataParallel::ReproducibleDataParallel(comm::Communicator& group, core::ParameterStore& parameters,
                                                   const ShardPlan& plan, const NormScope& scope)
    : DataParallel(group, parameters, plan, scope, pieces_of(plan, group.rank(), parameters, nullptr, nullptr)),
      chunks_(plan.settings.chunks / plan.ranks),
      done_(plan.settings.segments.size()) {
  for (std::int64_t level = 0; level < plan.tree_levels; ++level) levels_.emplace_back(plan.trainable);
}

void ReproducibleDataParallel::begin_step(std::int64_t micro_batches, std::int64_t) {
  core::require(micro_batches == chunks_, "reproducible sums: a micro-batch is one chunk");
  std::fill(done_.begin(), done_.end(), 0);
  squares_ = 0;
}

std::span<float> ReproducibleDataParallel::whole(std::size_t level) const {
  return {levels_[level].data(), static_cast<std::size_t>(levels_[level].size())};
}

// A binary counter: bit l of the chunk's number set means that level l holds the left half of a subtree.
void ReproducibleDataParallel::end_micro_batch(int segment) {
  const std::int64_t begin = plan_.settings.segments[static_cast<std::size_t>(segment)];
  const auto part = [&](std::span<float> arena) {
    return arena.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(plan_.segment_end(segment) - begin));
  };
  std::int64_t& chunk = done_[static_cast<std::size_t>(segment)];
  const std::span<float> sums = part(parameters_.gradients());
  if (measures_ && chunk == 0) add_squares(begin, sums);
  std::size_t level = 0;
  for (; (chunk >> level) & 1; ++level) ops::accumulate(part(whole(level)), sums);
  if (++chunk == chunks_) return;
  ops::set_zero(part(whole(level)));
  ops::accumulate(sums, part(whole(level)));
  ops::set_zero(sums);
}

void ReproducibleDataParallel::end_step() {
  for (int distance = 1; distance < plan_.ranks; distance *= 2) {
    group_.exchange(parameters_.gradients(), whole(0), group_.rank() ^ distance);
    ops::accumulate(whole(0), parameters_.gradients());  // a + b and b + a have the same bits
  }
  const OwnedRange all{0, plan_.trainable, parameters_.gradients().data()};
  if (complete_) complete_({&all, 1});
  report_summed();
}

}  // namespace bert_hpc::train
