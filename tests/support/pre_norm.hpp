// Pre-norm and causal models, which no family makes yet: plans of encoders with other edges and another mask.
#pragma once

#include <utility>
#include <vector>

#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/model_plan.hpp"

namespace bert_hpc::test {

/// The norm behind the embeddings becomes the first sublayer's, that behind each sublayer the next one's, and the last
/// norm that before the head.
inline model::ModelPlan pre_norm(model::ModelPlan plan) {
  layers::change_embeddings(plan.input, [](layers::EmbeddingsSettings& embeddings) { embeddings.sum_out = true; });
  for (layers::SublayerSettings& sublayer : plan.sublayers) sublayer.sum_out = true;
  return plan;
}

/// Tokens attend to those before them. `plan` is that of a family by this configuration.
inline model::ModelPlan causal(model::ModelPlan plan, const model::ModelConfig& config) {
  for (layers::SublayerSettings& sublayer : plan.sublayers) {
    if (!sublayer.kind->mixes_tokens()) continue;
    const std::vector<layers::SublayerLinear> linear = sublayer.kind->linear_layers(sublayer);
    sublayer.kind = layers::attention_sublayer(
        {.query = linear[0].name,
         .key = linear[1].name,
         .value = linear[2].name,
         .heads = config.num_attention_heads,
         .dropout = static_cast<float>(model::encoder_settings(config).attention_probs_dropout_prob),
         .mask = ops::AttentionMask::causal()});
  }
  return plan;
}

}  // namespace bert_hpc::test
