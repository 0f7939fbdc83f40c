#include "bert_hpc/train/tensor_norms.hpp"

#include <map>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::train {

TensorNormScope tensor_norm_scope(const std::vector<core::ParameterSlice>& local,
                                  const std::vector<core::ParameterSpec>& model, comm::Communicator& all_ranks,
                                  bool reproducible, int tensor_rank, bool counts) {
  TensorNormScope scope;
  scope.all_ranks = &all_ranks;
  scope.reproducible = reproducible;
  std::map<std::string, std::int64_t> number;
  std::int64_t blocks = 0;
  const core::ParameterStore whole(model, core::ParameterStore::Arenas::none);
  for (const core::ParameterSlice& slice : whole.slices()) {
    if (!slice.copy_of.empty()) continue;
    number[slice.name] = static_cast<std::int64_t>(number.size());
    scope.first_block.push_back(blocks);
    scope.elements.push_back(slice.size);
    // A part of a tensor may begin and end within a block where the whole does not.
    if (slice.trainable) blocks += slice.size / ops::norm_block + 2;
  }
  scope.first_block.push_back(blocks);
  std::int64_t group = 0;
  for (const core::ParameterSlice& slice : local) {
    if (!slice.joined) group = slice.offset;
    const auto found = number.find(slice.copy_of.empty() ? slice.name : slice.copy_of);
    core::require(found != number.end(), "tensor norms: a stage has a parameter that the model has not");
    const bool first = tensor_rank == 0 || !slice.shard.is_whole();
    scope.slices.push_back({found->second, group, counts && first && slice.copy_of.empty() && slice.trainable,
                            slice.decay && slice.trainable});
  }
  return scope;
}

std::vector<double> tensor_sums(const TensorNormScope& scope, std::span<double> sums) {
  core::require(static_cast<std::int64_t>(sums.size()) == 2 * scope.blocks(),
                "tensor norms: not the sums of this scope");
  const bool several = scope.all_ranks->size() > 1;
  if (scope.reproducible && several) scope.all_ranks->all_reduce(sums, comm::Reduction::sum);
  std::vector<double> totals(static_cast<std::size_t>(2 * scope.tensors()), 0.0);
  for (std::size_t t = 0; t + 1 < scope.first_block.size(); ++t) {
    for (std::int64_t b = scope.first_block[t]; b < scope.first_block[t + 1]; ++b) {
      totals[2 * t] += sums[static_cast<std::size_t>(2 * b)];
      totals[2 * t + 1] += sums[static_cast<std::size_t>(2 * b + 1)];
    }
  }
  if (!scope.reproducible && several) scope.all_ranks->all_reduce(std::span(totals), comm::Reduction::sum);
  return totals;
}

}  // namespace bert_hpc::train
