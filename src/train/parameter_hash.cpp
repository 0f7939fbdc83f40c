#include "bert_hpc/train/parameter_hash.hpp"

#include <algorithm>
#include <span>

#include "bert_hpc/ops/optimizer_update.hpp"

namespace bert_hpc::train {

ParameterHash::ParameterHash(comm::Communicator& replicas, comm::Communicator& everyone,
                             const core::ParameterStore& parameters, std::int64_t every)
    : replicas_(replicas), everyone_(everyone), parameters_(parameters), every_(every) {}

std::vector<std::uint64_t> ParameterHash::hashes() const {
  std::vector<std::uint64_t> result;
  for (std::size_t i = 0; i < parameters_.slices().size(); ++i) {
    const float* data = parameters_.value(static_cast<int>(i)).data;
    result.push_back(ops::hash_of_bits({data, static_cast<std::size_t>(parameters_.slices()[i].size)}));
  }
  return result;
}

/// Everyone's findings, by rank.
std::string ParameterHash::agree(const std::string& mine) {
  if (!everyone_.any(!mine.empty())) return {};
  std::string all;
  const std::vector<std::string> texts = everyone_.all_gather(mine);
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
  hashes_ = hashes();
  hashed_ = update;
  const std::size_t slices = hashes_.size(), ranks = static_cast<std::size_t>(replicas_.size());
  std::vector<std::uint64_t> all(slices * ranks);
  replicas_.all_gather(std::as_bytes(std::span(hashes_)), std::as_writable_bytes(std::span(all)));
  std::string mine;
  for (std::size_t i = 0; i < slices && mine.empty(); ++i) {
    // This rank speaks if fewer than half of the replicas have its hash: of two, nobody can tell which one is right.
    std::size_t same = 0;
    for (std::size_t r = 0; r < ranks; ++r) same += all[r * slices + i] == hashes_[i] ? 1 : 0;
    if (same == ranks || 2 * same > ranks) continue;
    mine = parameters_.slices()[i].name + " differs from that of " + (2 * same == ranks ? "half" : "most") +
           " of the other replicas after update " + std::to_string(update) + '.';
  }
  return agree(mine);
}

std::string ParameterHash::before_update(std::int64_t update) {
  if (hashed_ == 0 || update != hashed_ + 1) return {};
  const std::vector<std::uint64_t> now = hashes();
  std::string mine;
  for (std::size_t i = 0; i < now.size() && mine.empty(); ++i) {
    if (now[i] == hashes_[i]) continue;
    mine = parameters_.slices()[i].name + " has changed between updates " + std::to_string(hashed_) + " and " +
           std::to_string(update) + ", when nothing may write it.";
  }
  return agree(mine);
}

}  // namespace bert_hpc::train
