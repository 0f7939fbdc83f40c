// A model that reads the embeddings of another one instead of token ids.
#pragma once

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

/// Makes the model read these embeddings, if the shards hold some. Throws Error(data) on embeddings of another encoder
/// or width than the model's, on embeddings for a model of token ids, and the reverse.
void take_embeddings(const config::Config& input, const data::ShardInfo& shards, model::ModelConfig& config);

}  // namespace bert_hpc::app
