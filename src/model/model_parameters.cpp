#include "bert_hpc/model/model_parameters.hpp"

#include <algorithm>

#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/ops/optimizer_update.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "bert_layers.hpp"

namespace bert_hpc::model {

using core::Tensor;

namespace {

constexpr std::uint32_t embeddings_site = 0, head_site = 0xFFF0, first_block_site = 1, sites_per_block = 3;

}  // namespace

layers::EmbeddingsSettings embeddings_settings(const ModelConfig& config, const HeadKind& kind) {
  layers::EmbeddingsSettings settings;
  settings.vocabulary = config.vocab_size;
  settings.positions = config.max_position_embeddings;
  settings.types = config.type_vocab_size;
  settings.hidden = config.hidden_size;
  settings.layer_norm_epsilon = static_cast<float>(config.layer_norm_eps);
  settings.hidden_dropout = static_cast<float>(config.hidden_dropout_prob);
  settings.site = embeddings_site;
  // A decoder tied to the word embeddings is a product, which has a gradient for every row.
  settings.looked_up = !kind.ties_word_embeddings;
  return settings;
}

layers::SublayerSettings sublayer_settings(const ModelConfig& config, std::int64_t sublayer) {
  using Kind = layers::SublayerSettings::Kind;
  const std::int64_t index = sublayer / 2;
  layers::SublayerSettings settings;
  settings.kind = sublayer % 2 == 0 ? Kind::attention : Kind::feed_forward;
  settings.prefix = "bert.encoder.layer." + std::to_string(index) + ".";
  settings.hidden = config.hidden_size;
  settings.heads = config.num_attention_heads;
  settings.intermediate = config.intermediate_size;
  settings.layer_norm_epsilon = static_cast<float>(config.layer_norm_eps);
  settings.hidden_dropout = static_cast<float>(config.hidden_dropout_prob);
  settings.attention_dropout = static_cast<float>(config.attention_probs_dropout_prob);
  settings.first_site = first_block_site + sites_per_block * static_cast<std::uint32_t>(index);
  return settings;
}

layers::HeadSettings head_settings(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs,
                                   const ModelRange& range) {
  layers::HeadSettings settings;
  settings.kind = kind;
  settings.hidden = config.hidden_size;
  settings.outputs = kind.outputs(config.vocab_size, outputs);
  settings.classifier_dropout = static_cast<float>(config.classifier_dropout.value_or(config.hidden_dropout_prob));
  settings.layer_norm_epsilon = static_cast<float>(config.layer_norm_eps);
  settings.site = head_site;
  settings.declares_decoder = kind.ties_word_embeddings && (!range.embeddings || range.decoder_apart);
  settings.decoder = settings.declares_decoder ? decoder_name : word_embeddings_name;
  return settings;
}

std::vector<core::ParameterSpec> model_parameters(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs,
                                                  const ModelRange& range, const layers::TensorPlace& place) {
  std::vector<core::ParameterSpec> specs;
  if (range.embeddings) layers::Embeddings::declare(embeddings_settings(config, kind), specs, place);
  for (std::int64_t i = range.first; i < range.last; ++i) {
    layers::declare_sublayer(sublayer_settings(config, i), specs, place);
  }
  if (range.head) layers::declare_head(head_settings(config, kind, outputs, range), specs, place);
  return specs;
}

std::vector<core::ParameterSpec> model_parameters(const ModelConfig& config, const HeadKind& kind,
                                                  std::int64_t outputs) {
  return model_parameters(config, kind, outputs, whole(config));
}

double training_flops(const ModelConfig& config, const HeadKind& kind, std::int64_t tokens,
                      double sum_of_squared_lengths, double head_rows) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto wide = static_cast<double>(config.intermediate_size);
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const double weights = 4 * hidden * hidden + 2 * hidden * wide;  // of a block
  // Transform and decoder, or pooler and classifier.
  const auto outputs = static_cast<double>(kind.outputs(config.vocab_size, config.num_labels()));
  const double head = 6 * hidden * (hidden + outputs);
  return layers * (6 * weights * static_cast<double>(tokens) + 12 * hidden * sum_of_squared_lengths) + head_rows * head;
}

namespace {

void fill_normal(std::span<float> elements, const core::ParameterSlice& slice, float deviation, std::uint64_t seed) {
  const core::ShardRuns runs = core::runs_of(slice.shape, slice.shard);
  for (std::int64_t r = 0; r < runs.count; ++r) {
    const auto begin = static_cast<std::size_t>(r * runs.length), length = static_cast<std::size_t>(runs.length);
    ops::fill_normal(elements.subspan(begin, length), deviation, seed, runs.first + r * runs.stride);
  }
}

}  // namespace

void initialize_parameters(core::ParameterStore& parameters, const ModelConfig& config, std::uint64_t seed,
                           const std::vector<std::string>& only) {
  for (std::size_t i = 0; i < parameters.slices().size(); ++i) {
    const core::ParameterSlice& slice = parameters.slices()[i];
    if (!only.empty() && std::find(only.begin(), only.end(), slice.name) == only.end()) continue;
    const Tensor<float> value = parameters.change_value(static_cast<int>(i));
    const std::span<float> elements(value.data, static_cast<std::size_t>(slice.size));
    const std::string& name = slice.copy_of.empty() ? slice.name : slice.copy_of;
    if (name.ends_with("LayerNorm.weight")) {
      ops::fill(elements, 1.0f);
    } else if (name.ends_with("bias")) {
      ops::fill(elements, 0.0f);
    } else {
      fill_normal(elements, slice, static_cast<float>(config.initializer_range), seed ^ core::fnv1a_64(name));
    }
    const std::int64_t padding = config.pad_token_id - slice.shard.begin;
    if (name == word_embeddings_name && padding >= 0 && padding < slice.rows) {
      ops::fill({value.row(padding), static_cast<std::size_t>(slice.columns)}, 0.0f);
    }
  }
}

}  // namespace bert_hpc::model
