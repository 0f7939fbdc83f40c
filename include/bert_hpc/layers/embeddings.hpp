// An encoder's input: dropout(layer_norm(word + position + token type)), Devlin et al. 2019, or without positions or
// token types. A pre-norm model's: z = dropout(word + position + token type), y = layer_norm(z), Radford et al. 2019.
// ESM drops mask tokens and scales the words of the others (ops/token_dropout.hpp).
// In a tensor group the rows of the word embeddings are shared out; position and type embeddings are whole, and each
// rank computes their gradients from all tokens, as it needs them for its words anyway.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/layers/input.hpp"
#include "bert_hpc/layers/layer_norm.hpp"
#include "bert_hpc/ops/token_dropout.hpp"

namespace bert_hpc::layers {

struct EmbeddingsSettings {
  /// Names of the tables without ".weight", and of the layer norm.
  std::string word = "word", position = "position", type = "type", norm = "norm";
  std::int64_t vocabulary = 0, positions = 0, types = 0, hidden = 0;  ///< positions, types: 0 for a model without
  std::int64_t first_position = 0;  ///< rows of the position table before that of a sequence's first token, the last of
                                    ///< them padding's, which begins as zeros (RoBERTa)
  std::int64_t padding_row = -1;    ///< of the words: it begins as zeros; -1: none
  float layer_norm_epsilon = 1e-12f;
  float hidden_dropout = 0.1f;
  ops::TokenDropout token_dropout{};  ///< of the words
  DataType storage = DataType::fp32;  ///< of activations
  std::uint32_t site = 0;
  NormKind norm_kind = NormKind::layer;
  bool sum_out = false;      ///< hands on z and y, as SublayerSettings::sum_out
  bool lookup_only = false;  ///< nothing but look-ups reads the tables and gives them gradients

  /// A batch touches few rows of the tables, and rows are whole cache lines.
  bool row_sparse() const { return lookup_only && hidden % core::floats_of_cache_line == 0; }
};

class Embeddings : public Input {
 public:
  static void declare(const EmbeddingsSettings& settings, std::vector<core::ParameterSpec>& specs,
                      const TensorRank& tensor_rank = {});
  Embeddings(const EmbeddingsSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group = {});

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<Saved>(); }
  void allocate_saved(core::Workspace& workspace, std::int64_t tokens, SavedActivations& saved) const override;
  void forward(Engine& engine, const StepContext& context, SavedActivations& saved) const override;
  void backward_weight(Engine& engine, const StepContext& context, const SavedActivations& saved,
                       const StreamGradient& d_y) const override;

 private:
  struct Saved : SavedActivations {
    Tensor<float> statistics;  ///< (2, rows): mean, rstd of the layer norm
    Tensor<float> factors;     ///< (1, tokens): of token_dropout; empty without it
  };

  void look_up(const core::MicroBatch& batch, Saved& saved) const;
  /// Of the rows that tokens read.
  template <class T>
  Tensor<T> positions(const Tensor<T>& table) const {
    return table.rows == 0 ? table : table.row_range(settings_.first_position, settings_.positions);
  }
  /// A table without rows if the model does not have it.
  Tensor<const float> table(int index) const { return index < 0 ? Tensor<const float>() : parameters_.value(index); }
  /// Table of positions, for sequences of at most so many tokens.
  Tensor<const float> position_table(std::int64_t longest) const {
    if (position_ < 0) return {};
    return parameters_.value_of_first_rows(position_, settings_.first_position + longest);
  }
  /// Without rows where there is no such table or it is frozen.
  Tensor<float> table_gradient(int table) const {
    return table >= 0 && parameters_.is_trainable(table) ? parameters_.gradient(table) : Tensor<float>();
  }
  bool trains_tables() const {
    const auto is_trained = [this](int table) { return table >= 0 && parameters_.is_trainable(table); };
    return is_trained(word_) || is_trained(position_) || is_trained(type_);
  }

  EmbeddingsSettings settings_;
  const core::ParameterStore& parameters_;
  TensorGroup group_;
  int word_, position_, type_;  // -1: the model has no such table
  NormParameters norm_;
};

std::shared_ptr<const InputKind> token_embeddings(EmbeddingsSettings settings);
/// Settings of an input that token_embeddings() made.
const EmbeddingsSettings& embeddings_settings(const InputKind& input);
/// Replaces such an input by one whose settings `change` has changed.
template <class Change>
void change_embeddings(std::shared_ptr<const InputKind>& input, const Change& change) {
  EmbeddingsSettings settings = embeddings_settings(*input);
  change(settings);
  input = token_embeddings(std::move(settings));
}

}  // namespace bert_hpc::layers
