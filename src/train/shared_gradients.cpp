#include "bert_hpc/train/shared_gradients.hpp"

#include <algorithm>
#include <map>

#include "bert_hpc/core/shard.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::train {
namespace {

const std::string& original_of(const core::ParameterSpec& spec) {
  return spec.copy_of.empty() ? spec.name : spec.copy_of;
}

}  // namespace

std::vector<std::string> shared_parameters(const std::vector<core::ParameterSpec>& model, const std::string& tied) {
  std::vector<std::string> names;
  for (const core::ParameterSpec& spec : model) {
    if (spec.copy_of.empty() || spec.copy_of == tied || !spec.trainable) continue;
    if (std::find(names.begin(), names.end(), spec.copy_of) == names.end()) names.push_back(spec.copy_of);
  }
  return names;
}

SharedGradients::SharedGradients(const core::ParameterStore& parameters, const std::vector<core::ParameterSpec>& model,
                                 const std::vector<std::string>& names, comm::Communicator& all_ranks, bool counts,
                                 int tensor_rank)
    : all_ranks_(all_ranks) {
  std::map<std::string, std::int64_t> offset;  // of each copy in gradients_
  std::int64_t floats = 0;
  for (const std::string& name : names) {
    Shared shared{floats, 0, 0};
    for (const core::ParameterSpec& spec : model) {
      if (original_of(spec) != name) continue;
      shared.size = core::elements_of(spec.shape);
      offset[spec.name] = shared.first + shared.copies++ * shared.size;
    }
    floats += shared.copies * shared.size;
    shared_.push_back(shared);
  }
  for (const core::ParameterSlice& slice : parameters.slices()) {
    const auto found = offset.find(slice.name);
    if (found == offset.end()) continue;
    const core::ShardRuns runs = core::runs_of(slice.shape, slice.shard);
    const bool counts_here = counts && (tensor_rank == 0 || !slice.shard.is_whole());
    for (std::int64_t r = 0; r < runs.count; ++r) {
      runs_.push_back({.begin = slice.offset + r * runs.length,
                       .size = runs.length,
                       .offset = found->second + runs.first + r * runs.stride,
                       .counts = counts_here});
    }
  }
  gradients_ = core::Buffer<float>(floats);
}

void SharedGradients::add(std::span<const OwnedRange> sums) {
  const std::span<float> all(gradients_.data(), static_cast<std::size_t>(gradients_.size()));
  ops::set_zero(all);
  for (const Run& run : runs_) {
    if (!run.counts) continue;
    for_held_parts(sums, run.begin, run.size, [&](std::span<float> part, std::int64_t at) {
      ops::copy(part, all.subspan(static_cast<std::size_t>(run.offset + at), part.size()));
    });
  }
  // An element is in the sums of one rank: adding zeros is exact.
  if (all_ranks_.size() > 1) all_ranks_.all_reduce(all, comm::Reduction::sum);
  for (const Shared& shared : shared_) {
    for (std::int64_t copy = 1; copy < shared.copies; ++copy) ops::accumulate(row(shared, copy), row(shared, 0));
    for (std::int64_t copy = 1; copy < shared.copies; ++copy) ops::copy(row(shared, 0), row(shared, copy));
  }
  for (const Run& run : runs_) {
    for_held_parts(sums, run.begin, run.size, [&](std::span<float> part, std::int64_t at) {
      ops::copy(all.subspan(static_cast<std::size_t>(run.offset + at), part.size()), part);
    });
  }
}

}  // namespace bert_hpc::train
