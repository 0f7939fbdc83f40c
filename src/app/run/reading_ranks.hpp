// Which ranks open a data set together: all of a run.
#pragma once

#include <cstddef>
#include <span>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/data/shard_reader.hpp"

namespace bert_hpc::app {

/// `world` must outlive what it returns. `checks_files`: this rank does.
inline data::ReadingRanks reading_ranks(comm::Communicator& world, bool checks_files) {
  return {.rank = world.rank(),
          .count = world.size(),
          .checks_files = checks_files,
          .broadcast = [&world](std::span<std::byte> bytes, int root) { world.broadcast(bytes, root); },
          .any = [&world](bool value) { return world.any(value); }};
}

}  // namespace bert_hpc::app
