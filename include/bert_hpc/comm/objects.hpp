// Collectives of typed values: numbers, text, vectors, and structs that name their fields (core/message.hpp).
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/message.hpp"

namespace bert_hpc::comm {

/// Collective over the group. Returns the objects of all ranks, by rank. For set-up and results, not for the step loop,
/// as it allocates.
template <class T>
std::vector<T> all_gather_objects(Communicator& group, const T& mine) {
  std::vector<T> all;
  for (const std::string& bytes : group.all_gather(core::to_message(mine))) {
    all.push_back(core::from_message<T>(bytes));
  }
  return all;
}

/// Collective over the group. Returns the object of rank `root`.
template <class T>
T broadcast_object(Communicator& group, const T& mine, int root) {
  return core::from_message<T>(group.broadcast(group.rank() == root ? core::to_message(mine) : std::string(), root));
}

}  // namespace bert_hpc::comm
