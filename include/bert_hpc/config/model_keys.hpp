// The keys of [model]: their fields, and the list that reads, writes and documents them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/config/toml_reader.hpp"
#include "bert_hpc/core/model_limits.hpp"
#include "bert_hpc/core/number_setting.hpp"

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
  std::vector<core::KnownFamily> known;   ///< families that the program has; no key
  std::string family = "bert";            ///< model_type of config.json
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
  std::optional<double> initializer_range;
  std::optional<std::int64_t> embedding_size;  ///< of a family that has embeddings of another size than hidden_size
  // Keys that not every family has, by their names: `known` lists them.
  std::map<std::string, std::optional<double>> own_numbers;
  std::map<std::string, std::optional<std::string>> own_words;

  bool has_attention() const {
    return std::none_of(known.begin(), known.end(),
                        [this](const core::KnownFamily& one) { return one.name == family && !one.attention; });
  }
};

/// Sizes of [model] that only families with attention have, by their keys. `AnyModel` is Model or const Model.
template <class AnyModel>
auto attention_sizes(AnyModel& model) {
  return std::array{std::pair("num_attention_heads", &model.num_attention_heads),
                    std::pair("intermediate_size", &model.intermediate_size),
                    std::pair("max_position_embeddings", &model.max_position_embeddings),
                    std::pair("type_vocab_size", &model.type_vocab_size)};
}

/// Keys that some families have, each once. A word's are those of all families.
inline std::vector<core::FamilyKey> family_keys(const std::vector<core::KnownFamily>& families) {
  std::vector<core::FamilyKey> keys;
  for (const core::KnownFamily& family : families) {
    for (const core::FamilyKey& key : family.keys) {
      const auto found =
          std::find_if(keys.begin(), keys.end(), [&key](const core::FamilyKey& other) { return other.key == key.key; });
      if (found == keys.end()) {
        keys.push_back(key);
        continue;
      }
      for (const std::string& word : key.words) {
        if (std::find(found->words.begin(), found->words.end(), word) == found->words.end()) {
          found->words.push_back(word);
        }
      }
    }
  }
  return keys;
}

inline void visit_model(TomlKeys& toml, Model& model) {
  const Range probability = from_to_below(0, 1), size = between(1, double{core::largest_size});
  Choices families;
  for (const core::KnownFamily& one : model.known) families.names.push_back(one.name);
  toml.table("model").key("family", model.family, families);
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
  toml.key("max_position_embeddings", model.max_position_embeddings, size);
  toml.key("type_vocab_size", model.type_vocab_size, size);
  for (const core::FamilyKey& own : family_keys(model.known)) {
    if (own.words.empty()) {
      toml.key(own.key.c_str(), model.own_numbers[own.key], range_of(own.limits));
    } else {
      toml.key(own.key.c_str(), model.own_words[own.key], one_of(own.words));
    }
  }
  toml.key("initializer_range", model.initializer_range,
           {.low = 0, .high = core::largest_initial_range, .low_open = true});
  Lora& lora = model.lora;
  toml.table("model.lora").key("rank", lora.rank, size).key("alpha", lora.alpha, positive());
  toml.key("dropout", lora.dropout, probability).key("targets", lora.targets).key("rslora", lora.rslora);
  toml.key("dora", lora.dora).key("train_head", lora.train_head).key("adapter", lora.adapter);
}

}  // namespace bert_hpc::config
