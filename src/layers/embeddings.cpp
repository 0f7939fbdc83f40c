#include "bert_hpc/layers/embeddings.hpp"

#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/embedding.hpp"
#include "bert_hpc/ops/layer_norm.hpp"

namespace bert_hpc::layers {

void Embeddings::declare(const EmbeddingsSettings& settings, std::vector<core::ParameterSpec>& specs) {
  specs.push_back({settings.prefix + "word_embeddings.weight", {settings.vocabulary, settings.hidden}});
  specs.push_back({settings.prefix + "position_embeddings.weight", {settings.positions, settings.hidden}});
  specs.push_back({settings.prefix + "token_type_embeddings.weight", {settings.types, settings.hidden}});
  specs.push_back({settings.prefix + "LayerNorm.weight", {settings.hidden}, false});
  specs.push_back({settings.prefix + "LayerNorm.bias", {settings.hidden}, false});
}

Embeddings::Embeddings(const EmbeddingsSettings& settings, const core::ParameterStore& parameters)
    : settings_(settings),
      parameters_(parameters),
      word_(parameters.find(settings.prefix + "word_embeddings.weight")),
      position_(parameters.find(settings.prefix + "position_embeddings.weight")),
      type_(parameters.find(settings.prefix + "token_type_embeddings.weight")),
      gamma_(parameters.find(settings.prefix + "LayerNorm.weight")),
      beta_(parameters.find(settings.prefix + "LayerNorm.bias")) {}

Embeddings::Saved Embeddings::take_saved(core::Workspace& workspace, std::int64_t tokens) const {
  Saved saved;
  saved.sum = workspace.take<float>(tokens, settings_.hidden);
  saved.output = workspace.take<float>(tokens, settings_.hidden);
  saved.statistics = workspace.take<float>(2, tokens);
  return saved;
}

void Embeddings::forward(const Pass& pass, Saved& saved) const {
  ops::embedding_forward(pass.batch, parameters_.value(word_), parameters_.value(position_), parameters_.value(type_),
                         saved.sum);
  ops::residual_layer_norm_forward(pass.dropout(0.0f, settings_.site), pass.batch.tokens, saved.sum, nullptr, {},
                                   parameters_.value(gamma_).data, parameters_.value(beta_).data,
                                   settings_.layer_norm_epsilon, saved.output, saved.statistics.row(0),
                                   saved.statistics.row(1));
  const core::Dropout drop = pass.dropout(settings_.hidden_dropout, settings_.site);
  if (drop.probability > 0) ops::dropout(drop, pass.batch.tokens, saved.output, saved.output);
}

void Embeddings::backward_weight(const Pass& pass, const Saved& saved, Tensor<float> d_y) const {
  const core::Dropout drop = pass.dropout(settings_.hidden_dropout, settings_.site);
  if (drop.probability > 0) ops::dropout(drop, pass.batch.tokens, d_y, d_y);
  ops::layer_norm_backward_weight(d_y, saved.sum, saved.statistics.row(0), saved.statistics.row(1),
                                  parameters_.gradient(gamma_).data, parameters_.gradient(beta_).data,
                                  ops::Write::accumulate);
  ops::residual_layer_norm_backward(pass.dropout(0.0f, settings_.site), pass.batch.tokens, d_y, saved.sum,
                                    parameters_.value(gamma_).data, saved.statistics.row(0), saved.statistics.row(1),
                                    d_y, {});
  ops::embedding_backward(pass.batch, d_y, parameters_.gradient(word_), parameters_.gradient(position_),
                          parameters_.gradient(type_));
}

}  // namespace bert_hpc::layers
