#include "bert_hpc/layers/embeddings.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/embedding.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "bert_hpc/ops/optimizer_update.hpp"

namespace bert_hpc::layers {

void Embeddings::declare(const EmbeddingsSettings& settings, std::vector<core::ParameterSpec>& specs,
                         const TensorPlace& place) {
  // The rows of a shard of the vocabulary are not the ids of tokens: there all rows count as touched.
  const bool few_rows = settings.few_rows() && place.size == 1;
  specs.push_back({.name = settings.prefix + "word_embeddings.weight",
                   .shape = {place.share(settings.vocabulary), settings.hidden},
                   .shard = place.rows(settings.vocabulary)});
  specs.back().few_rows = few_rows;
  specs.push_back({settings.prefix + "position_embeddings.weight", {settings.positions, settings.hidden}});
  specs.back().few_rows = few_rows;
  specs.push_back({settings.prefix + "token_type_embeddings.weight", {settings.types, settings.hidden}});
  for (std::size_t table = specs.size() - 3; table < specs.size(); ++table) {
    specs[table].looked_up = settings.looked_up;
  }
  specs.push_back({settings.prefix + "LayerNorm.weight", {settings.hidden}, false});
  specs.push_back({settings.prefix + "LayerNorm.bias", {settings.hidden}, false});
}

Embeddings::Embeddings(const EmbeddingsSettings& settings, const core::ParameterStore& parameters,
                       const TensorGroup& group)
    : settings_(settings),
      parameters_(parameters),
      group_(group),
      word_(parameters.find(settings.prefix + "word_embeddings.weight")),
      position_(parameters.find(settings.prefix + "position_embeddings.weight")),
      type_(parameters.find(settings.prefix + "token_type_embeddings.weight")),
      gamma_(parameters.find(settings.prefix + "LayerNorm.weight")),
      beta_(parameters.find(settings.prefix + "LayerNorm.bias")) {
  core::require(settings.vocabulary >= group.place().size, "embeddings: a tensor group larger than the vocabulary");
}

Embeddings::SavedActivations Embeddings::allocate_saved(core::Workspace& workspace, std::int64_t tokens) const {
  SavedActivations saved;
  saved.sum = group_.take(workspace, tokens, settings_.hidden, settings_.storage);
  saved.output = group_.take(workspace, tokens, settings_.hidden, settings_.storage);
  saved.statistics = workspace.take<float>(2, group_.capacity(tokens));
  return saved;
}

/// saved.sum = word + position + type
void Embeddings::look_up(const core::MicroBatch& batch, SavedActivations& saved) const {
  const Tensor<const float> word = parameters_.value(word_), position = parameters_.value(position_),
                            type = parameters_.value(type_);
  if (!group_.shared()) return ops::embedding_forward(batch, word, position, type, saved.sum);
  const Matrix words = group_.partial(saved.sum, batch.tokens.count);
  ops::word_embedding_forward(batch, word, group_.place().begin(settings_.vocabulary), words.as<float>());
  group_.sum(words, saved.sum);
  ops::add_position_and_type(batch, group_.begin(batch.tokens.count), position, type, saved.sum);
}

void Embeddings::forward(const StepContext& context, SavedActivations& saved) const {
  look_up(context.batch, saved);
  const core::TokenRows rows = group_.own(context.batch.tokens);
  ops::residual_layer_norm_forward(context.dropout(0.0f, settings_.site), rows, saved.sum, nullptr, {},
                                   parameters_.value(gamma_).data, parameters_.value(beta_).data,
                                   settings_.layer_norm_epsilon, saved.output, saved.statistics.row(0),
                                   saved.statistics.row(1));
  const core::Dropout drop = context.dropout(settings_.hidden_dropout, settings_.site);
  if (drop.probability > 0) ops::dropout(drop, rows, saved.output, saved.output);
}

void Embeddings::backward_weight(const StepContext& context, const SavedActivations& saved, Matrix d_y) const {
  const core::TokenRows rows = group_.own(context.batch.tokens);
  const core::Dropout drop = context.dropout(settings_.hidden_dropout, settings_.site);
  if (drop.probability > 0) ops::dropout(drop, rows, d_y, d_y);
  const NormGradient norm = {d_y,
                             saved.sum,
                             saved.statistics.row(0),
                             saved.statistics.row(1),
                             parameters_.gradient(gamma_).data,
                             parameters_.gradient(beta_).data};
  add_norm_gradients(group_, {&norm, 1});
  ops::residual_layer_norm_backward(context.dropout(0.0f, settings_.site), rows, d_y, saved.sum,
                                    parameters_.value(gamma_).data, saved.statistics.row(0), saved.statistics.row(1),
                                    d_y, {});
  ops::embedding_backward(context.batch, group_.gather(d_y, context.batch.tokens.count), parameters_.gradient(word_),
                          parameters_.gradient(position_), parameters_.gradient(type_),
                          group_.place().begin(settings_.vocabulary));
  if (!settings_.few_rows() || group_.shared()) return;
  const core::SortedIds& words = context.batch.sorted_ids;
  ops::mark_rows({parameters_.marks_of(word_)}, settings_.hidden, words.ids, words.unique);
  ops::mark_first_rows({parameters_.marks_of(position_)}, settings_.hidden, context.batch.max_length);
}

}  // namespace bert_hpc::layers
