// From a ModelConfig to the settings of its layers; used by what lists parameters and by what builds layers.
#pragma once

#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/layers/sublayer.hpp"
#include "bert_hpc/model/partition.hpp"

namespace bert_hpc::model {

layers::EmbeddingsSettings embeddings_settings(const ModelConfig& config, const HeadKind& kind);
/// `sublayer`: as ModelRange counts them.
layers::SublayerSettings sublayer_settings(const ModelConfig& config, std::int64_t sublayer);
layers::HeadSettings head_settings(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs,
                                   const ModelRange& range);

}  // namespace bert_hpc::model
