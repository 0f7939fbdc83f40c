// How long the passes of each piece of a model take here: the embeddings, and the distinct sublayers, the last one with
// the head. Each is made as a stage of its own, with memory that is given back afterwards, and computes
// real micro-batches; no parameter of the run is touched. Of several rounds the quickest counts, as others on the
// machine can only add to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/plan/model_piece.hpp"
#include "bert_hpc/comm/process_groups.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/model/partition.hpp"
#include "bert_hpc/train/pipeline_plan.hpp"

namespace bert_hpc::app {

/// Collective over all ranks. Times every piece on the middle micro-batch of what this rank's replica does in the first
/// step with these options. Returns the times of the slowest rank of each stage, as proportional to the tokens, the
/// same on every rank; stages that differ by less than a tenth are taken to be alike. Throws Error where batches cannot
/// be cut or memory does not suffice.
std::vector<train::ModelSeconds> profile_layers(const comm::ProcessGroups& groups, const model::ModelConfig& config,
                                                const MeasuredModel& model, data::ShardReader& reader,
                                                const data::BatchLoaderOptions& batches);

}  // namespace bert_hpc::app
