#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::uint32_t embeddings_site = 0, head_site = 0xFFF0, first_block_site = 1, sites_per_block = 3;

}  // namespace

ModelPlan encoder_plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs) {
  using Kind = layers::SublayerSettings::Kind;
  const bool masked = kind.ties_word_embeddings;
  const auto epsilon = static_cast<float>(config.layer_norm_eps);
  ModelPlan plan;
  layers::EmbeddingsSettings& embeddings = plan.embeddings;
  embeddings.vocabulary = config.vocab_size;
  embeddings.positions = config.max_position_embeddings;
  embeddings.types = config.type_vocab_size;
  embeddings.hidden = config.hidden_size;
  embeddings.padding_row = config.pad_token_id;
  embeddings.layer_norm_epsilon = epsilon;
  embeddings.hidden_dropout = static_cast<float>(config.hidden_dropout_prob);
  embeddings.site = embeddings_site;
  // A decoder tied to the word embeddings is a product, which has a gradient for every row.
  embeddings.lookup_only = !masked;
  for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
    for (const Kind each : {Kind::attention, Kind::feed_forward}) {
      layers::SublayerSettings sublayer;
      sublayer.kind = each;
      sublayer.hidden = config.hidden_size;
      sublayer.heads = config.num_attention_heads;
      sublayer.intermediate = config.intermediate_size;
      sublayer.layer_norm_epsilon = epsilon;
      sublayer.hidden_dropout = static_cast<float>(config.hidden_dropout_prob);
      sublayer.attention_dropout = static_cast<float>(config.attention_probs_dropout_prob);
      sublayer.first_site = first_block_site + sites_per_block * static_cast<std::uint32_t>(block);
      plan.sublayers.push_back(std::move(sublayer));
    }
  }
  plan.selects_from = plan.sublayer_count() - (kind.reads_all_tokens ? 0 : 2);  // the attention of the last block
  layers::HeadSettings& head = plan.head;
  head.kind = kind;
  head.hidden = config.hidden_size;
  head.outputs = kind.outputs(config.vocab_size, outputs);
  head.classifier = kind.classifier;
  head.classifier_dropout = static_cast<float>(kind.reads_all_tokens ? config.span_dropout : config.head_dropout());
  head.layer_norm_epsilon = epsilon;
  head.activation = masked ? layers::Activation::gelu : layers::Activation::tanh;
  head.site = head_site;
  head.padding_row = config.pad_token_id;
  return plan;
}

}  // namespace bert_hpc::model
