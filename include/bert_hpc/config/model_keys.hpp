// The keys of [model]: their fields, and the list that reads, writes and documents them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/config/toml_reader.hpp"
#include "bert_hpc/core/model_limits.hpp"

namespace bert_hpc::config {

/// [model.lora]: low-rank adapters. What is unset is the adapter's, or the default.
struct Lora {
  std::optional<std::int64_t> rank;    ///< 8
  std::optional<double> alpha;         ///< 8
  std::optional<double> dropout;       ///< 0
  std::optional<bool> rslora;          ///< false
  std::optional<bool> dora;            ///< false
  std::optional<bool> train_head;      ///< true, but of tasks whose adapters are trained alone
  std::vector<std::string> targets;    ///< empty: query and value
  std::optional<std::string> adapter;  ///< a folder that PEFT or a run has written

  bool is_given() const {
    return rank || alpha || dropout || rslora || dora || train_head || !targets.empty() || adapter;
  }
};

/// Sizes and rates under config.json's names: the model from scratch, or what is to differ from `pretrained`.
struct Model {
  std::string family = "bert";            ///< model_type of config.json
  std::vector<std::string> known;         ///< families that the program has; no key
  std::vector<std::string> recurrent;     ///< those of them without attention; no key
  std::optional<std::string> pretrained;  ///< a Hugging Face folder
  std::string head = "auto";              ///< of `pretrained`: "auto", "keep", "new"
  std::string attention = "fused";        ///< "fused", "plain"
  std::string trainable = "all";          ///< "all", "head", "bitfit", "lora"
  Lora lora;
  std::int64_t freeze_layers = 0;  ///< the embeddings and so many blocks, the lowest; 0: nothing
  // recompute: a word, or a number of blocks (a list of one); both empty: nothing.
  std::string recompute;  ///< "none", "attention", "blocks"
  std::vector<double> recompute_blocks;
  std::optional<std::int64_t> vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
  std::optional<std::int64_t> max_position_embeddings, type_vocab_size;
  std::optional<double> hidden_dropout_prob, attention_probs_dropout_prob, classifier_dropout;
  std::optional<double> layer_norm_eps, initializer_range;
  std::optional<double> embedding_dropout, attention_output_dropout;
  std::optional<double> local_attention, global_attn_every_n_layers, global_rope_theta, local_rope_theta;
  std::optional<std::int64_t> embedding_size;  ///< of a family without attention
  std::optional<std::string> pooling;          ///< "cls", "ends", "mean", "max", as the family allows

  bool has_attention() const { return std::find(recurrent.begin(), recurrent.end(), family) == recurrent.end(); }
};

/// Sizes of [model] that only families with attention have, by their keys. `AnyModel` is Model or const Model.
template <class AnyModel>
auto attention_sizes(AnyModel& model) {
  return std::array{std::pair("num_attention_heads", &model.num_attention_heads),
                    std::pair("intermediate_size", &model.intermediate_size),
                    std::pair("max_position_embeddings", &model.max_position_embeddings),
                    std::pair("type_vocab_size", &model.type_vocab_size)};
}

/// Numbers of [model] that not every family has, by their keys. `AnyModel` is Model or const Model.
template <class AnyModel>
auto own_numbers(AnyModel& model) {
  return std::array{std::pair("hidden_dropout_prob", &model.hidden_dropout_prob),
                    std::pair("attention_probs_dropout_prob", &model.attention_probs_dropout_prob),
                    std::pair("classifier_dropout", &model.classifier_dropout),
                    std::pair("layer_norm_eps", &model.layer_norm_eps),
                    std::pair("embedding_dropout", &model.embedding_dropout),
                    std::pair("attention_output_dropout", &model.attention_output_dropout),
                    std::pair("local_attention", &model.local_attention),
                    std::pair("global_attn_every_n_layers", &model.global_attn_every_n_layers),
                    std::pair("global_rope_theta", &model.global_rope_theta),
                    std::pair("local_rope_theta", &model.local_rope_theta)};
}

inline void visit_model(TomlKeys& toml, Model& model) {
  const Range probability = from_to_below(0, 1), size = between(1, double{core::largest_size});
  const auto above_zero = [](double high) { return Range{.low = 0, .high = high, .low_open = true}; };
  toml.table("model").key("family", model.family, {.names = model.known});
  toml.key("pretrained", model.pretrained);
  toml.key("head", model.head, one_of({"auto", "keep", "new"}));
  toml.key("attention", model.attention, one_of({"fused", "plain"}));
  toml.key("trainable", model.trainable, one_of({"all", "head", "bitfit", "lora"}));
  toml.key("freeze_layers", model.freeze_layers, between(0, double{core::max_layers}));
  toml.key("recompute", model.recompute_blocks, {.low = 0, .high = double{core::max_layers}, .takes_one = true},
           model.recompute, one_of({"none", "attention", "blocks"}));
  toml.key("vocab_size", model.vocab_size, between(1, double{core::largest_vocabulary}));
  toml.key("hidden_size", model.hidden_size, size);
  toml.key("num_hidden_layers", model.num_hidden_layers, between(1, double{core::max_layers}));
  toml.key("num_attention_heads", model.num_attention_heads, size);
  toml.key("intermediate_size", model.intermediate_size, size);
  toml.key("embedding_size", model.embedding_size, size);
  toml.key("pooling", model.pooling, one_of({"cls", "ends", "mean", "max"}));
  toml.key("max_position_embeddings", model.max_position_embeddings, size);
  toml.key("type_vocab_size", model.type_vocab_size, size);
  toml.key("hidden_dropout_prob", model.hidden_dropout_prob, probability);
  toml.key("attention_probs_dropout_prob", model.attention_probs_dropout_prob, probability);
  toml.key("classifier_dropout", model.classifier_dropout, probability);
  toml.key("embedding_dropout", model.embedding_dropout, probability);
  toml.key("attention_output_dropout", model.attention_output_dropout, probability);
  toml.key("local_attention", model.local_attention, between(0, double{core::largest_size}));
  toml.key("global_attn_every_n_layers", model.global_attn_every_n_layers, between(1, double{core::max_layers}));
  toml.key("global_rope_theta", model.global_rope_theta, positive());
  toml.key("local_rope_theta", model.local_rope_theta, positive());
  toml.key("layer_norm_eps", model.layer_norm_eps, above_zero(core::largest_epsilon));
  toml.key("initializer_range", model.initializer_range, above_zero(core::largest_initial_range));
  Lora& lora = model.lora;
  toml.table("model.lora").key("rank", lora.rank, size).key("alpha", lora.alpha, positive());
  toml.key("dropout", lora.dropout, probability).key("targets", lora.targets).key("rslora", lora.rslora);
  toml.key("dora", lora.dora).key("train_head", lora.train_head).key("adapter", lora.adapter);
}

}  // namespace bert_hpc::config
