// Damage that keeps a checkpoint from being read, found by all ranks together.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/io/checkpoint_folder.hpp"

namespace bert_hpc::app {

/// Collective. The link that keeps the checkpoint from being read; "" if there is none.
std::string link_in(comm::Communicator& world, const io::CheckpointFolder& folder, std::int64_t step);

/// Collective. Why the checkpoint cannot be used, the same on every rank; "" if it is whole, and then every rank has
/// its manifest. Each file is verified by one rank.
std::string damage(comm::Communicator& world, const io::CheckpointFolder& folder, std::int64_t step,
                   io::CheckpointManifest& manifest, std::mutex& hdf5);

}  // namespace bert_hpc::app
