#include "bert_hpc/train/data_parallel.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/optimizer_update.hpp"

namespace bert_hpc::train {
namespace {

/// Σ x², in fixed blocks added in order.
double sum_of_squares(std::span<const float> x, std::vector<double>& partials) {
  partials.resize((x.size() + ops::norm_block - 1) / ops::norm_block);
  ops::squared_norm_blocks(x, partials);
  double sum = 0;
  for (const double partial : partials) sum += partial;
  return sum;
}

class OverlappedDataParallel : public DataParallel {
 public:
  OverlappedDataParallel(comm::Communicator& group, const core::ParameterStore& parameters, std::int64_t bucket)
      : DataParallel(group, parameters, bucket) {
    if (group.size() == 1) return;
    sums_ = core::Buffer<float>(parameters.arena_size() / group.size());
    for (OwnedRange& range : owned_) range.gradient = sums_.data() + range.begin / bucket_ * (bucket_ / group.size());
    partials_.reserve(static_cast<std::size_t>(bucket_ / ops::norm_block) + 1);
  }
  std::int64_t bytes() const override { return sums_.size() * static_cast<std::int64_t>(sizeof(float)); }

  void begin_step(std::int64_t micro_batches) override {
    remaining_ = micro_batches;
    next_ = static_cast<std::int64_t>(owned_.size());
  }

  void finished(std::int64_t begin) override {
    if (group_.size() == 1 || remaining_ != 1) return;  // only the last micro-batch's gradients are final
    while (next_ > 0 && (next_ - 1) * bucket_ >= begin) start();
    for (const auto& request : requests_) request->test();  // lets MPI move data between two layers
  }

  void end_micro_batch() override { --remaining_; }

  void end_step() override {
    if (group_.size() == 1) return;
    while (next_ > 0) start();
    for (const auto& request : requests_) request->wait();
    requests_.clear();
  }

  double gradient_norm() override {
    double sum = 0;
    for (const OwnedRange& range : owned_) {
      sum += sum_of_squares({range.gradient, static_cast<std::size_t>(range.size)}, partials_);
    }
    return std::sqrt(group_.sum(sum));
  }

 private:
  void start() {
    --next_;
    const OwnedRange& range = owned_[static_cast<std::size_t>(next_)];
    requests_.push_back(group_.start_reduce_scatter(
        parameters_.gradients().subspan(static_cast<std::size_t>(next_ * bucket_),
                                        static_cast<std::size_t>(range.size * group_.size())),
        {range.gradient, static_cast<std::size_t>(range.size)}));
  }

  core::Buffer<float> sums_;  // this rank's pieces of all buckets, one after the other
  std::vector<double> partials_;
  std::int64_t remaining_ = 0;  // micro-batches of the step still to come
  std::int64_t next_ = 0;       // buckets from here on are being reduced
};

class ReproducibleDataParallel : public DataParallel {
 public:
  ReproducibleDataParallel(comm::Communicator& group, const core::ParameterStore& parameters, std::int64_t chunks)
      : DataParallel(group, parameters, parameters.arena_size()), chunks_(chunks / group.size()) {
    core::require(std::has_single_bit(static_cast<std::uint64_t>(chunks)) &&
                      std::has_single_bit(static_cast<unsigned>(group.size())) && chunks >= group.size(),
                  "reproducible sums: chunks and ranks must be powers of two, with no more ranks than chunks");
    for (std::int64_t level = 1; level < chunks_; level *= 2) levels_.emplace_back(parameters.arena_size());
    if (levels_.empty() && group.size() > 1) levels_.emplace_back(parameters.arena_size());  // receives
  }
  std::int64_t bytes() const override {
    return static_cast<std::int64_t>(levels_.size() * sizeof(float)) * parameters_.arena_size();
  }

  void begin_step(std::int64_t micro_batches) override {
    core::require(micro_batches == chunks_, "reproducible sums: a micro-batch is one chunk");
    chunk_ = 0;
  }
  void finished(std::int64_t) override {}

  // A binary counter: bit l of the chunk's number set means that level l holds the left half of a subtree.
  void end_micro_batch() override {
    const std::span<float> gradients = parameters_.gradients();
    std::size_t level = 0;
    for (; (chunk_ >> level) & 1; ++level) ops::accumulate(partial(level), gradients);
    ++chunk_;
    if (chunk_ == chunks_) return;
    ops::set_zero(partial(level));
    ops::accumulate(gradients, partial(level));
    ops::set_zero(gradients);
  }

  void end_step() override {
    for (int distance = 1; distance < group_.size(); distance *= 2) {
      group_.exchange(parameters_.gradients(), partial(0), group_.rank() ^ distance);
      ops::accumulate(partial(0), parameters_.gradients());  // a + b and b + a have the same bits
    }
  }

  double gradient_norm() override { return std::sqrt(sum_of_squares(parameters_.gradients(), partials_)); }

 private:
  std::span<float> partial(std::size_t level) {
    return {levels_[level].data(), static_cast<std::size_t>(levels_[level].size())};
  }

  std::int64_t chunks_;     // of this rank
  std::int64_t chunk_ = 0;  // done in this step
  std::vector<core::Buffer<float>> levels_;
  std::vector<double> partials_;
};

}  // namespace

DataParallel::DataParallel(comm::Communicator& group, const core::ParameterStore& parameters,
                           std::int64_t bucket_elements)
    : group_(group), parameters_(parameters) {
  const std::int64_t unit = std::int64_t{16} * group.size(), arena = parameters.arena_size();
  core::require(arena % unit == 0, "data parallel: the arena does not divide into equal pieces");
  bucket_ = std::min(std::max<std::int64_t>(1, bucket_elements / unit) * unit, arena);
  for (std::int64_t begin = 0; begin < arena; begin += bucket_) {
    const std::int64_t piece = std::min(bucket_, arena - begin) / group.size(), mine = begin + piece * group.rank();
    owned_.push_back({mine, piece, parameters.gradients().data() + mine});
  }
  requests_.reserve(owned_.size());
}

void DataParallel::share_parameters() {
  if (group_.size() == 1) return;  // the update has zeroed the gradients
  for (std::size_t i = 0; i < owned_.size(); ++i) {
    requests_.push_back(group_.start_all_gather(parameters_.values().subspan(
        i * static_cast<std::size_t>(bucket_), static_cast<std::size_t>(owned_[i].size * group_.size()))));
  }
  ops::set_zero(parameters_.gradients());
  for (const auto& request : requests_) request->wait();
  requests_.clear();
}

std::unique_ptr<DataParallel> make_overlapped_data_parallel(comm::Communicator& group,
                                                            const core::ParameterStore& parameters,
                                                            std::int64_t bucket_elements) {
  return std::make_unique<OverlappedDataParallel>(group, parameters, bucket_elements);
}

std::unique_ptr<DataParallel> make_reproducible_data_parallel(comm::Communicator& group,
                                                              const core::ParameterStore& parameters,
                                                              std::int64_t chunks) {
  return std::make_unique<ReproducibleDataParallel>(group, parameters, chunks);
}

}  // namespace bert_hpc::train
