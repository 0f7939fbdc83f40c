// The configuration of the model: first as the input states it, then completed with the facts of the data. Pure, but
// for reading config.json.
#pragma once

#include <string>

#include "app/engine/model_request.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/model/model_plan.hpp"

namespace bert_hpc::app {

/// The model as the input states it, before the data are known: `pretrained`'s config.json with the keys of [model]
/// over it, or BERT-base's values with them. Throws Error.
model::ModelConfig model_from_config(const config::Config& input);
/// The model as mode "embed" computes it: up to the block whose result [embed] layer takes. Throws Error(input) if it
/// has no such block or fewer columns than [embed] dimensions. In other modes the model itself.
model::ModelConfig embedding_model(const config::Config& input, model::ModelConfig config);

/// How config.json says that a model was trained for another task than that of `objective`: its key and value, and what
/// the task needs. Empty if it does not say so.
std::string other_task(const objectives::Objective& objective, const model::ModelConfig& stated);

/// Adds the facts of the data: vocabulary (where [model] states none and there is no pretrained model), labels, special
/// tokens. Throws Error(data) where data and model do not go together.
model::ModelConfig finalize(const config::Config& input, const model::ModelConfig& stated,
                            const data::ShardInfo& shards, const data::SpecialIds& special);

/// The plan of the complete model, with activations of storage_type(). `trains`: this run trains it, or what [model]
/// trainable and freeze_layers leave of it. Throws as model::make_plan().
model::ModelPlan plan_of(const config::Config& input, const model::ModelConfig& config, const model::HeadKind& kind,
                         bool trains);

/// The request of this run's model: `trains`, or only applied; `on_gpus`: computed on GPUs, if only planned here.
/// Throws as plan_of() and schedule_of().
ModelRequest model_request(const config::Config& input, const model::ModelConfig& config, bool trains,
                           bool on_gpus = core::is_gpu_build());

/// Limits that the model sets to its shards; zeros if the model takes its values from the data.
data::ShardLimits shard_limits(const config::Config& input, const model::ModelConfig& stated, bool labels);

}  // namespace bert_hpc::app
