#include <utility>

#include "family.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::uint32_t embeddings_site = 0, head_site = 0xFFF0, first_block_site = 1, sites_per_block = 3;

}  // namespace

ModelPlan encoder_plan(const ModelConfig& config, const EncoderSettings& own, const BlockNames& names,
                       const HeadKind& kind, std::int64_t outputs) {
  const bool masked = kind.predicts_tokens;
  const auto epsilon = static_cast<float>(own.layer_norm_eps);
  ModelPlan plan;
  layers::EmbeddingsSettings embeddings;
  embeddings.vocabulary = config.vocab_size;
  embeddings.positions = config.max_position_embeddings;
  embeddings.types = config.type_vocab_size;
  embeddings.hidden = config.hidden_size;
  embeddings.padding_row = config.pad_token_id;
  embeddings.layer_norm_epsilon = epsilon;
  embeddings.hidden_dropout = static_cast<float>(own.embedding_dropout.value_or(own.hidden_dropout_prob));
  embeddings.site = embeddings_site;
  // A decoder tied to the word embeddings is a product, which has a gradient for every row.
  embeddings.lookup_only = !(masked && config.ties_word_embeddings);
  plan.input = layers::token_embeddings(std::move(embeddings));
  for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
    const std::string prefix = names.prefix(block);
    layers::SublayerSettings sublayer;
    sublayer.block = block;
    sublayer.hidden = config.hidden_size;
    sublayer.layer_norm_epsilon = epsilon;
    sublayer.biases = names.biases;
    sublayer.norm_kind = names.norm_kind;
    sublayer.hidden_dropout = static_cast<float>(own.hidden_dropout_prob);
    sublayer.first_site = first_block_site + sites_per_block * static_cast<std::uint32_t>(block);
    layers::AttentionSettings attention = {.query = prefix + names.query,
                                           .key = prefix + names.key,
                                           .value = prefix + names.value,
                                           .heads = config.num_attention_heads,
                                           .key_heads = config.num_key_value_heads,
                                           .dropout = static_cast<float>(own.attention_probs_dropout_prob),
                                           .mask = names.mask,
                                           .rotary_theta = own.rotary_theta};
    if (names.change_attention) names.change_attention(block, attention);
    sublayer.kind = layers::attention_sublayer(std::move(attention));
    sublayer.output = prefix + names.attention_output;
    sublayer.norm = prefix + names.attention_norm;
    plan.sublayers.push_back(sublayer);
    if (names.gate.empty()) {
      sublayer.kind = layers::feed_forward_sublayer({.intermediate = prefix + names.intermediate,
                                                     .intermediate_size = config.intermediate_size,
                                                     .activation = names.activation});
    } else {
      sublayer.kind = layers::gated_feed_forward_sublayer({.intermediate = prefix + names.intermediate,
                                                           .gate = prefix + names.gate,
                                                           .intermediate_size = config.intermediate_size,
                                                           .activation = names.activation});
    }
    sublayer.output = prefix + names.output;
    sublayer.norm = prefix + names.norm;
    plan.sublayers.push_back(std::move(sublayer));
  }
  plan.selects_from = plan.sublayer_count() - (kind.reads_all_tokens ? 0 : 2);  // the attention of the last block
  layers::HeadSettings& head = plan.head;
  head.kind = kind;
  head.hidden = config.hidden_size;
  head.outputs = kind.outputs(config.vocab_size, config.hidden_size, outputs);
  head.classifier = kind.classifier;
  head.classifier_dropout = static_cast<float>(kind.reads_all_tokens ? own.span_dropout : own.head_dropout());
  head.layer_norm_epsilon = epsilon;
  head.activation = masked ? ops::Activation::gelu : ops::Activation::tanh;
  head.site = head_site;
  head.padding_row = config.pad_token_id;
  return plan;
}

void name_pretraining_head(ModelPlan& plan, const std::string& dense, const std::string& classifier, double dropout) {
  if (!plan.head.kind.labels_sequences) return;
  auto sequences = std::make_shared<layers::HeadSettings>(
      layers::HeadSettings{.kind = layers::sequence_head(), .hidden = plan.head.hidden, .outputs = 2});
  sequences->dense = dense;
  sequences->classifier = classifier;
  sequences->classifier_dropout = static_cast<float>(dropout);
  sequences->site = plan.head.site;
  plan.head.sequences = std::move(sequences);
}

void name_roberta_head(ModelPlan& plan, const HeadKind& kind) {
  const bool masked = kind.predicts_tokens;
  plan.head.dense = masked ? "lm_head.dense" : "classifier.dense";
  plan.head.norm = "lm_head.layer_norm";
  plan.head.bias = "lm_head.bias";
  if (masked || kind.is_token_head) return;
  plan.head.classifier = "classifier.out_proj";
  plan.head.input_dropout = plan.head.classifier_dropout;
}

void put_norms_before(ModelPlan& plan, const BlockNames& names, const std::string& final_norm) {
  for (layers::SublayerSettings& sublayer : plan.sublayers) {
    sublayer.sum_out = true;
    if (!sublayer.kind->mixes_tokens()) sublayer.norm = names.prefix(sublayer.block + 1) + names.norm;
  }
  plan.sublayers.back().sum_out = false;
  plan.sublayers.back().norm = final_norm;
}

void add_joined(WeightTable& table, const std::string& block, const std::string& tensor,
                const std::vector<std::string>& layers, std::int64_t rows, const std::string& end, bool transposed) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    table.add(block + layers[i] + end, {.tensor = block + tensor + end,
                                        .transposed = transposed,
                                        .first_row = static_cast<std::int64_t>(i) * rows,
                                        .tensor_rows = std::ssize(layers) * rows});
  }
}

}  // namespace bert_hpc::model
