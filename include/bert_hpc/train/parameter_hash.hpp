// Finds a flipped bit. Replicas hold the same parameters: after an update they compare a hash of each tensor. Nothing
// writes parameters between two updates: each rank compares its hashes after one update with those before the next. A
// hash is 64 bits, from every bit of the tensor (ops::hash_of_bits). Replicas of one node that map the same parameters
// (Communicator::allocate) cannot differ: there the second comparison alone finds a flipped bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/parameter_store.hpp"

namespace bert_hpc::train {

class ParameterHash {
 public:
  /// `replicas`: ranks that hold the same parameters; `all_ranks`: all that must learn of a finding, this rank's number
  /// there being what messages name. Both functions below do nothing but after every `every`-th update.
  ParameterHash(comm::Communicator& replicas, comm::Communicator& all_ranks, const core::ParameterStore& parameters,
                std::int64_t every);

  /// Collective over all_ranks. After update number `update` (from 1), when all ranks have the new parameters: complete
  /// sentences that name rank and tensor where replicas differ, the same on every rank; empty if all is well.
  std::string after_update(std::int64_t update);
  /// Collective over all_ranks. Before update number `update`: the same where parameters are not as after the last one.
  std::string before_update(std::int64_t update);

 private:
  void hash(std::vector<std::uint64_t>& hashes);
  std::string agree(const std::string& mine);

  comm::Communicator& replicas_;
  comm::Communicator& all_ranks_;
  const core::ParameterStore& parameters_;
  std::int64_t every_;
  std::int64_t hashed_ = 0;            // the update after which hashes_ were taken; 0: none
  std::vector<std::uint64_t> hashes_;  // by slice
  // Kept, as a step allocates nothing.
  std::vector<std::uint64_t> now_, all_;
  core::MirroredArray<std::uint64_t> partial_;
};

}  // namespace bert_hpc::train
