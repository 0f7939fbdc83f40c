// How parameters and optimizer states get from a checkpoint into any layout.
#pragma once

#include <mutex>

#include "app/engine/model_instance.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"
#include "bert_hpc/io/checkpoint_folder.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/optimizer.hpp"

namespace bert_hpc::app {

/// Collective. Parameters of the checkpoint into the model.
void load_parameters(const io::CheckpointFolder& folder, const io::CheckpointManifest& manifest, ModelInstance& model,
                     std::mutex& hdf5);
/// Collective. Its states into the optimizer.
void load_states(const io::CheckpointFolder& folder, const io::CheckpointManifest& manifest, ModelInstance& model,
                 const train::DataParallel& sums, train::Optimizer& optimizer, std::mutex& hdf5);

}  // namespace bert_hpc::app
