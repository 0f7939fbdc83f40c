// What micro-batches and whole data sets are to the costs of a model's layers. Pure.
#pragma once

#include <span>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/batch_plan.hpp"
#include "bert_hpc/data/batch_plan.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/layers/costs.hpp"

namespace bert_hpc::app {

/// Shape of these sequences with their padding.
layers::BatchShape shape_of(std::span<const core::PlannedSample> samples, const config::Config& input);

/// All sequences of a data set as one micro-batch, with the padding that they have in an evaluation's windows.
layers::BatchShape shape_of(const data::ShardReader& reader, const config::Config& input,
                            const data::BatchPlanOptions& window);

}  // namespace bert_hpc::app
