#include "bert_hpc/train/shared_gradients.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "bert_hpc/core/shard.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::train {
namespace {

const std::string& original_of(const core::ParameterSpec& spec) {
  return spec.copy_of.empty() ? spec.name : spec.copy_of;
}

/// Calls use(from, to) for the elements [from, from + size) and [to, to + size) of the arena, in parts that pieces hold
/// whole.
void for_both(std::span<const OwnedRange> pieces, std::int64_t from, std::int64_t to, std::int64_t size,
              void (*use)(std::span<const float>, std::span<float>)) {
  for_held_parts(pieces, from, size, [&](std::span<float> part, std::int64_t at) {
    for_held_parts(pieces, to + at, std::ssize(part), [&](std::span<float> other, std::int64_t offset) {
      use(part.subspan(static_cast<std::size_t>(offset), other.size()), other);
    });
  });
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

std::int64_t exchanged_bytes(const std::vector<core::ParameterSpec>& model, const std::vector<std::string>& names) {
  std::int64_t floats = 0;
  for (const core::ParameterSpec& spec : model) {
    const bool is_shared = std::find(names.begin(), names.end(), original_of(spec)) != names.end();
    if (is_shared) floats += core::elements_of(spec.shape);
  }
  return floats * static_cast<std::int64_t>(sizeof(float));
}

SharedGradients::SharedGradients(const core::ParameterStore& parameters, const std::vector<core::ParameterSpec>& model,
                                 const std::vector<std::string>& names, comm::Communicator& all_ranks, const Sums& sums)
    : all_ranks_(all_ranks) {
  if (sums.all_here) {
    find_here(parameters, model, names);
  } else {
    find_exchanged(parameters, model, names, sums);
  }
}

void SharedGradients::find_here(const core::ParameterStore& parameters, const std::vector<core::ParameterSpec>& model,
                                const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    Copies copies;
    for (const core::ParameterSpec& spec : model) {
      if (original_of(spec) != name) continue;
      const core::ParameterSlice& slice = parameters.slices()[static_cast<std::size_t>(parameters.find(spec.name))];
      copies.begins.push_back(slice.offset);
      copies.size = slice.size;
    }
    here_.push_back(std::move(copies));
  }
}

void SharedGradients::find_exchanged(const core::ParameterStore& parameters,
                                     const std::vector<core::ParameterSpec>& model,
                                     const std::vector<std::string>& names, const Sums& sums) {
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
    const bool counts = sums.counts && (sums.tensor_rank == 0 || !slice.shard.is_whole());
    for (std::int64_t r = 0; r < runs.count; ++r) {
      runs_.push_back({.begin = slice.offset + r * runs.length,
                       .size = runs.length,
                       .offset = found->second + runs.first + r * runs.stride,
                       .counts = counts});
    }
  }
  gradients_ = core::Buffer<float>(floats);
}

void SharedGradients::add(std::span<const OwnedRange> sums) {
  if (here_.empty()) return exchange(sums);
  for (const Copies& copies : here_) {
    const std::int64_t first = copies.begins.front();
    const std::span<const std::int64_t> others = std::span(copies.begins).subspan(1);
    for (const std::int64_t begin : others) for_both(sums, begin, first, copies.size, ops::accumulate);
    for (const std::int64_t begin : others) for_both(sums, first, begin, copies.size, ops::copy);
  }
}

void SharedGradients::exchange(std::span<const OwnedRange> sums) {
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
