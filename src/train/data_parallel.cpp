#include "bert_hpc/train/data_parallel.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/gradient_squares.hpp"
#include "data_parallel_kinds.hpp"

namespace bert_hpc::train {

namespace {

/// The gradients of [begin, end) as they lie in the arena, cut where their type changes.
void append_ranges(const core::ParameterStore& parameters, std::int64_t begin, std::int64_t end,
                   std::vector<OwnedRange>& ranges) {
  for (const core::ParameterStore::GradientRange& range : parameters.gradient_ranges()) {
    const std::int64_t first = std::max(begin, range.begin), last = std::min(end, range.end);
    if (first >= last) continue;
    void* const at = range.data + (first - range.begin) * core::bytes_of(range.type);
    OwnedRange& own = ranges.emplace_back(OwnedRange{.begin = first, .size = last - first});
    own.marks = parameters.marks(first);
    if (range.type == core::DataType::fp32) {
      own.gradient = static_cast<float*>(at);
    } else {
      own.narrow_gradient = static_cast<core::Bf16*>(at);
    }
  }
}

}  // namespace

std::vector<OwnedRange> pieces_of(const ShardPlan& plan, int rank, const core::ParameterStore& parameters, float* sums,
                                  std::uint8_t* marks) {
  std::vector<OwnedRange> pieces;
  for (const ShardPlan::Bucket& bucket : plan.buckets) {
    const std::int64_t size = bucket.size / plan.ranks, begin = bucket.begin + size * rank;
    if (sums == nullptr) {
      append_ranges(parameters, begin, begin + size, pieces);
      continue;
    }
    const bool marked = bucket.begin < plan.marked && marks != nullptr;
    pieces.push_back({begin, size, sums, marked ? marks : nullptr});
    if (marked) marks += size / ops::TouchedRows::line;
    sums += size;
  }
  return pieces;
}

DataParallel::DataParallel(comm::Communicator& group, core::ParameterStore& parameters, const ShardPlan& plan,
                           const NormScope& scope, std::vector<OwnedRange> parts)
    : group_(group),
      parameters_(parameters),
      plan_(plan),
      norm_(parameters, scope, parts, plan.settings.reproducible),
      noise_(noise_ranges(parameters.slices(), scope)) {
  if (plan.shares_update()) {
    owned_ = std::move(parts);
  } else {
    append_ranges(parameters, 0, plan.marked, owned_);
    append_ranges(parameters, plan.marked, plan.trainable, owned_);
  }
  requests_.reserve(plan.buckets.size());
}

std::span<float> DataParallel::gradients(const ShardPlan::Bucket& bucket) const {
  return parameters_.gradients().subspan(static_cast<std::size_t>(bucket.begin), static_cast<std::size_t>(bucket.size));
}

void DataParallel::report_summed() {
  for (std::size_t i = 0; summed_ && i < owned_.size(); ++i) summed_(i);
}

void DataParallel::add_squares(std::int64_t begin, std::span<const float> gradients) {
  const std::int64_t end = begin + static_cast<std::int64_t>(gradients.size());
  const auto blocks_of = [](std::int64_t elements) { return (elements + ops::norm_block - 1) / ops::norm_block; };
  if (partials_.size() == 0) {  // in the first measured step
    // Each range gives one partially filled block, in each part of the arena and on both sides of its marks.
    const auto parts = static_cast<std::int64_t>(std::max(plan_.settings.segments.size(), plan_.units.size()));
    partials_ = core::MirroredArray<double>(blocks_of(plan_.trainable) +
                                            2 * parts * (static_cast<std::int64_t>(noise_.size()) + 1));
  }
  const std::int64_t before = squares_;
  const auto square = [&](std::int64_t first, std::int64_t last, std::uint8_t* marks) {
    if (first >= last) return;
    const auto size = static_cast<std::size_t>(last - first), count = static_cast<std::size_t>(blocks_of(last - first));
    core::require(squares_ + static_cast<std::int64_t>(count) <= partials_.size(), "data parallel: too many squares");
    ops::squared_norm_blocks(gradients.subspan(static_cast<std::size_t>(first - begin), size),
                             {partials_.device() + squares_, count}, {marks});
    squares_ += static_cast<std::int64_t>(count);
  };
  for (const ArenaRange& range : noise_) {
    const std::int64_t first = std::max(begin, range.begin), last = std::min(end, range.end);
    const std::int64_t middle = std::clamp(plan_.marked, first, std::max(first, last));
    square(first, std::min(middle, last), parameters_.marks(first));
    square(middle, last, nullptr);
  }
  core::start_copy_to_host(partials_.device() + before, partials_.host() + before,
                           static_cast<std::size_t>(squares_ - before) * sizeof(double));
}

double DataParallel::first_micro_batch_squares() const {
  const double* const partials = partials_.host();
  return std::accumulate(partials, partials + squares_, 0.0);
}

void DataParallel::share_range(std::size_t i) {
  if (!plan_.shares_update()) return;
  core::require(i == shared_, "data parallel: ranges are shared in order");
  const ShardPlan::Bucket& bucket = plan_.buckets[shared_++];
  requests_.push_back(group_.start_all_gather(parameters_.change_values().subspan(
      static_cast<std::size_t>(bucket.begin), static_cast<std::size_t>(bucket.size))));
}

void DataParallel::share_parameters() {
  if (!plan_.shares_update()) return;  // the update has zeroed the gradients
  while (shared_ < owned_.size()) share_range(shared_);
  shared_ = 0;
  const auto marked = static_cast<std::size_t>(plan_.marked);
  ops::set_zero(parameters_.gradients().first(marked), {parameters_.marks(0)});
  ops::set_zero(parameters_.gradients().subspan(std::min(marked, parameters_.gradients().size())));
  for (const auto& request : requests_) request->wait();
  requests_.clear();
  parameters_.change_values();  // the values are new
}

std::unique_ptr<DataParallel> make_data_parallel(comm::Communicator& group, core::ParameterStore& parameters,
                                                 const ShardSettings& settings, const NormScope& scope) {
  const ShardPlan plan = plan_shards(parameters, settings, group.size());
  if (plan.shards_gradients()) return std::make_unique<ShardedDataParallel>(group, parameters, plan, scope);
  if (settings.reproducible) return std::make_unique<ReproducibleDataParallel>(group, parameters, plan, scope);
  return std::make_unique<OverlappedDataParallel>(group, parameters, plan, scope);
}

std::unique_ptr<DataParallel> make_data_parallel(comm::Communicator& group, core::ParameterStore& parameters,
                                                 const ShardSettings& settings) {
  return make_data_parallel(group, parameters, settings, whole_model_scope(parameters.slices(), group));
}

}  // namespace bert_hpc::train
