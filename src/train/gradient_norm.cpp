#include "bert_hpc/train/gradient_norm.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::train {
namespace {

std::int64_t blocks_of(std::int64_t size) {
  return (size + ops::norm_block - 1) / ops::norm_block;
}

/// Trainable slices that lie joined in the arena, as one.
struct JoinedSlices {
  std::size_t first_slice = 0;
  std::int64_t begin = 0, size = 0;
};

std::vector<JoinedSlices> groups_of(const std::vector<core::ParameterSlice>& slices) {
  std::vector<JoinedSlices> groups;
  for (std::size_t i = 0; i < slices.size() && slices[i].trainable; ++i) {
    if (!slices[i].joined) groups.push_back({i, slices[i].offset, 0});
    groups.back().size += slices[i].size;
  }
  return groups;
}

bool leaves_out(const NormScope& scope, std::size_t slice) {
  return std::binary_search(scope.without_noise.begin(), scope.without_noise.end(), slice);
}

}  // namespace

NormScope norm_scope(const std::vector<core::ParameterSlice>& local, const std::vector<core::ParameterSpec>& model,
                     comm::Communicator& all_ranks, int tensor_rank, const std::vector<std::string>& without_noise) {
  const core::ParameterStore whole(model, core::ParameterStore::Arenas::none);
  std::map<std::string, std::int64_t> first_blocks;
  NormScope scope{&all_ranks, 0, std::vector<std::int64_t>(local.size(), -1)};
  for (const JoinedSlices& group : groups_of(whole.slices())) {
    if (!whole.slices()[group.first_slice].copy_of.empty()) continue;
    first_blocks[whole.slices()[group.first_slice].name] = scope.blocks;
    scope.blocks += blocks_of(group.size);
  }
  for (const JoinedSlices& group : groups_of(local)) {
    const core::ParameterSlice& first = local[group.first_slice];
    if (!first.copy_of.empty() || (tensor_rank > 0 && first.shard.is_whole())) continue;
    const auto found = first_blocks.find(first.name);
    core::require(found != first_blocks.end(), "gradient norm: a stage has a parameter that the model has not");
    scope.first_block[group.first_slice] = found->second;
    const bool is_left_out = std::find(without_noise.begin(), without_noise.end(), first.name) != without_noise.end();
    if (is_left_out) scope.without_noise.push_back(group.first_slice);
  }
  return scope;
}

std::vector<ArenaRange> noise_ranges(const std::vector<core::ParameterSlice>& local, const NormScope& scope) {
  std::vector<ArenaRange> ranges;
  bool follows = false;  // is the last range that of the group before?
  for (const JoinedSlices& group : groups_of(local)) {
    const bool counts = scope.first_block[group.first_slice] >= 0 && !leaves_out(scope, group.first_slice);
    if (counts && follows) {
      ranges.back().end = group.begin + group.size;  // the padding between is zero
    } else if (counts) {
      ranges.push_back({group.begin, group.begin + group.size});
    }
    follows = counts;
  }
  return ranges;
}

NormScope whole_model_scope(const std::vector<core::ParameterSlice>& local, comm::Communicator& all_ranks) {
  NormScope scope{&all_ranks, 0, std::vector<std::int64_t>(local.size(), -1)};
  for (const JoinedSlices& group : groups_of(local)) {
    if (!local[group.first_slice].copy_of.empty()) continue;
    scope.first_block[group.first_slice] = scope.blocks;
    scope.blocks += blocks_of(group.size);
  }
  return scope;
}

GradientNorm::GradientNorm(const core::ParameterStore& parameters, const NormScope& scope,
                           std::span<const OwnedRange> parts, bool reproducible)
    : all_ranks_(*scope.all_ranks), reproducible_(reproducible) {
  core::require(scope.first_block.size() == parameters.slices().size(), "gradient norm: not the scope of this arena");
  const std::vector<JoinedSlices> groups = groups_of(parameters.slices());
  std::vector<ops::SquareRange> runs, without_noise;
  for (const OwnedRange& part : parts) {
    bool follows = false;  // does the run before end with the group before, in this part?
    for (const JoinedSlices& group : groups) {
      const std::int64_t first_block = scope.first_block[group.first_slice];
      const std::int64_t begin = std::max(part.begin, group.begin);
      const std::int64_t end = std::min(part.begin + part.size, group.begin + group.size);
      if (first_block < 0 || begin >= end) {
        follows = false;
        continue;
      }
      const bool narrow = part.narrow_gradient != nullptr;
      const float* gradient = narrow ? nullptr : part.gradient + (begin - part.begin);
      const core::Bf16* narrow_gradient = narrow ? part.narrow_gradient + (begin - part.begin) : nullptr;
      std::uint8_t* const marks =
          part.marks == nullptr ? nullptr : part.marks + (begin - part.begin) / ops::TouchedRows::line;
      if (leaves_out(scope, group.first_slice)) {
        without_noise.push_back({gradient, end - begin, 0, marks, narrow_gradient});
      }
      if (reproducible) {
        core::require((begin - group.begin) % ops::norm_block == 0, "gradient norm: a part begins within a block");
        runs.push_back(
            {gradient, end - begin, first_block + (begin - group.begin) / ops::norm_block, marks, narrow_gradient});
      } else if (follows) {  // the padding between is zero
        runs.back().size = narrow ? narrow_gradient + (end - begin) - runs.back().narrow_gradient
                                  : gradient + (end - begin) - runs.back().gradient;
      } else {
        runs.push_back({gradient, end - begin, 0, marks, narrow_gradient});
      }
      follows = true;
    }
  }
  std::int64_t left_out = 0, blocks = 0;
  for (ops::SquareRange& run : without_noise) run.first_block = std::exchange(left_out, left_out + blocks_of(run.size));
  for (ops::SquareRange& run : runs) {
    if (!reproducible) run.first_block = std::exchange(blocks, blocks + blocks_of(run.size));
  }
  runs_ = ops::SquareRanges(runs);
  without_noise_ = ops::SquareRanges(without_noise);
  partials_ = core::MirroredArray<double>(reproducible ? scope.blocks : blocks);
  left_out_ = core::MirroredArray<double>(left_out);
  squares_ = core::MirroredArray<double>(1);
  factor_ = core::Buffer<float>(1);
}

void GradientNorm::start(ops::ClippingSums sums, double max_norm, double scale) {
  const std::span<double> device(partials_.device(), static_cast<std::size_t>(partials_.size()));
  if (reproducible_) core::fill_on_device(device.data(), 0, device.size_bytes());
  runs_.sum(device);
  if (reproducible_) return partials_.start_to_host(partials_.size());
  sums.partial = device.data();
  sums.partials = partials_.size();
  ops::sum_and_clip(sums, max_norm, scale, squares_.device(), factor_.data());
  squares_.start_to_host(1);
}

double GradientNorm::result() {
  if (!reproducible_) return std::sqrt(all_ranks_.size() == 1 ? own_squares() : all_ranks_.sum(own_squares()));
  const std::span<double> partials(partials_.host(), static_cast<std::size_t>(partials_.size()));
  if (all_ranks_.size() > 1) all_ranks_.all_reduce(partials, comm::Reduction::sum);
  return std::sqrt(std::accumulate(partials.begin(), partials.end(), 0.0));
}

double GradientNorm::operator()() {
  start();
  core::wait_for_kernels();
  return result();
}

void GradientNorm::start_left_out() {
  if (left_out_.size() == 0) return;
  without_noise_.sum({left_out_.device(), static_cast<std::size_t>(left_out_.size())});
  left_out_.start_to_host(left_out_.size());
}

double GradientNorm::left_out() const {
  const double* const partials = left_out_.host();
  return std::accumulate(partials, partials + left_out_.size(), 0.0);
}

}  // namespace bert_hpc::train
