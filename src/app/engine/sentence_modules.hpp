// Settings that an input takes from a folder of sentence-transformers, and the files of such a folder for an exported
// model.
#pragma once

#include "app/engine/data_sets.hpp"
#include "app/engine/model_instance.hpp"
#include "app/run/run_context.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/model/sentence_folder.hpp"

namespace bert_hpc::app {

/// Sets [embed] pooling and normalize of mode "embed", or [task] pooling of the task "embedding", if the input does
/// not: as the pretrained model's folder says, or the usual ones. Throws Error(input) if the folder's modules are not
/// those of its model (`hidden`: columns of that), or are not computed here, or [task] dimensions are more, and
/// Error(files).
void settle_pooling(config::Config& input, std::int64_t hidden);

/// Files of sentence-transformers beside an exported model; none unless its task is "embedding". `shards`: of the
/// training.
model::NamedTexts sentence_files_of(const config::Config& input, const ModelInstance& model,
                                    const data::ShardInfo& shards);

/// Collective. Warns if the pretrained model's folder has prompts and the shards of a data set have none of them.
/// Throws Error(files).
void warn_of_prompts(const RunContext& context, const DataSets& sets);

}  // namespace bert_hpc::app
