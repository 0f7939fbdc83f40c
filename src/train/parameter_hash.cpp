#include "bert_hpc/train/parameter_hash.hpp"

#include <algorithm>
#include <span>

#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::train {

ParameterHash::ParameterHash(comm::Communicator& replicas, comm::Communicator& all_ranks,
                             const core::ParameterStore& parameters, std::int64_t every)
    : replicas_(replicas), all_ranks_(all_ranks), parameters_(parameters), every_(every) {
  if (every <= 0) return;
  std::int64_t largest = 0;
  for (const core::ParameterSlice& slice : parameters.slices()) largest = std::max(largest, slice.size);
  partial_ = core::MirroredArray<std::uint64_t>((largest + ops::norm_block - 1) / ops::norm_block);
  hashes_.resize(parameters.slices().size());
  now_.resize(hashes_.size());
  all_.resize(hashes_.size() * static_cast<std::size_t>(replicas.size()));
}

void ParameterHash::hash(std::vector<std::uint64_t>& hashes) {
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const float* data = parameters_.value(static_cast<int>(i)).data;
    hashes[i] = ops::hash_of_bits({data, static_cast<std::size_t>(parameters_.slices()[i].size)}, partial_);
  }
}

/// The findings of all ranks, by rank.
std::string ParameterHash::agree(const std::string& mine) {
  if (!all_ranks_.any(!mine.empty())) return {};
  std::string all;
  const std::vector<std::string> texts = all_ranks_.all_gather(mine);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    all += all.empty() ? "rank " : " rank ";
    all += std::to_string(rank) + ": " + texts[rank];
  }
  return all;
}

std::string ParameterHash::after_update(std::int64_t update) {
  hashed_ = 0;
  if (every_ <= 0 || update % every_ != 0) return {};
  hash(hashes_);
  hashed_ = update;
  const std::size_t slices = hashes_.size(), ranks = static_cast<std::size_t>(replicas_.size());
  replicas_.all_gather(std::as_bytes(std::span(hashes_)), std::as_writable_bytes(std::span(all_)));
  std::string mine;
  for (std::size_t i = 0; i < slices && mine.empty(); ++i) {
    // This rank reports if fewer than half of the replicas have its hash: of two, neither is known to be right.
    std::size_t same = 0;
    for (std::size_t r = 0; r < ranks; ++r) same += all_[r * slices + i] == hashes_[i] ? 1 : 0;
    if (same == ranks || 2 * same > ranks) continue;
    mine = parameters_.slices()[i].name + " differs from that of " + (2 * same == ranks ? "half" : "most") +
           " of the other replicas after update " + std::to_string(update) + '.';
  }
  return agree(mine);
}

std::string ParameterHash::before_update(std::int64_t update) {
  if (hashed_ == 0 || update != hashed_ + 1) return {};
  hash(now_);
  std::string mine;
  for (std::size_t i = 0; i < now_.size() && mine.empty(); ++i) {
    if (now_[i] == hashes_[i]) continue;
    mine = parameters_.slices()[i].name + " has changed between updates " + std::to_string(hashed_) + " and " +
           std::to_string(update) + ", when nothing may write it.";
  }
  return agree(mine);
}

}  // namespace bert_hpc::train
