// The data sets that a run reads, and how they become batches.
#pragma once

#include <memory>
#include <mutex>

#include "bert_hpc/app/assembly.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/batch_loader.hpp"

namespace bert_hpc::app {

struct DataSets {
  std::mutex hdf5;                                             ///< held during every HDF5 call once loaders run
  std::unique_ptr<data::ShardReader> train, validation, test;  ///< null where the mode or the input has none

  data::ShardReader& any() const { return train ? *train : validation ? *validation : *test; }
};

/// Collective. Opens and checks what the mode reads; exit code 3 with every problem of a data set.
void open_data(DataSets& sets, const config::Config& input, const model::BertConfig& stated, comm::Communicator& world);

/// Micro-batches of a replica in a pipeline where the input leaves their number open: four for each stage, so that the
/// bubble of 1F1B, (p − 1)/(m + p − 1) of the step, is a fifth at most; fewer where a replica has fewer sequences. 0
/// without a pipeline. Pure.
std::int64_t pipeline_micro_batches(const comm::GridShape& grid, std::int64_t global_batch);

/// How the training data become batches for this replica. Pure.
data::BatchLoaderOptions training_batches(const config::Config& input, const model::BertConfig& model,
                                          std::int64_t max_length, int replica, const comm::GridShape& grid);

/// Most tokens of an evaluation micro-batch.
std::int64_t evaluation_micro_tokens(const config::Config& input, std::int64_t max_length);

/// What the model's memory must hold for these micro-batches.
layers::BatchBounds model_bounds(const data::BatchPlanBounds& plan, std::int64_t max_length, std::int64_t most_masked,
                                 model::HeadKind kind);
layers::BatchBounds larger(const layers::BatchBounds& a, const layers::BatchBounds& b);

}  // namespace bert_hpc::app
