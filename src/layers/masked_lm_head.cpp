#include "masked_lm_head.hpp"

#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::layers {

void MaskedLmHead::declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs) {
  const std::string prefix = "cls.predictions.";
  specs.push_back({prefix + "bias", {settings.outputs}, false});
  specs.push_back({prefix + "transform.dense.weight", {settings.hidden, settings.hidden}});
  specs.push_back({prefix + "transform.dense.bias", {settings.hidden}, false});
  specs.push_back({prefix + "transform.LayerNorm.weight", {settings.hidden}, false});
  specs.push_back({prefix + "transform.LayerNorm.bias", {settings.hidden}, false});
  if (settings.declares_decoder) {
    specs.push_back({.name = settings.decoder,
                     .shape = {settings.outputs, settings.hidden},
                     .copy_of = "bert.embeddings.word_embeddings.weight"});
  }
}

MaskedLmHead::MaskedLmHead(const HeadSettings& settings, const core::ParameterStore& parameters)
    : settings_(settings),
      parameters_(parameters),
      dense_weight_(parameters.find("cls.predictions.transform.dense.weight")),
      dense_bias_(parameters.find("cls.predictions.transform.dense.bias")),
      gamma_(parameters.find("cls.predictions.transform.LayerNorm.weight")),
      beta_(parameters.find("cls.predictions.transform.LayerNorm.bias")),
      decoder_(parameters.find(settings.decoder)),
      bias_(parameters.find("cls.predictions.bias")) {}

Head::Saved MaskedLmHead::take_saved(core::Workspace& workspace, std::int64_t rows) const {
  Saved saved;
  saved.dense = workspace.take<float>(rows, settings_.hidden);
  saved.activated = workspace.take<float>(rows, settings_.hidden);
  saved.features = workspace.take<float>(rows, settings_.hidden);
  saved.statistics = workspace.take<float>(2, rows);
  saved.d_features = workspace.take<float>(rows, settings_.hidden);
  saved.d_dense = workspace.take<float>(rows, settings_.hidden);
  saved.logits = workspace.take<float>(rows, settings_.outputs);
  saved.row_losses = workspace.take<float>(1, rows);
  return saved;
}

void MaskedLmHead::forward(Engine& engine, const Pass& pass, Tensor<const float> x, Saved& saved) const {
  engine.products.forward_gelu(x, parameters_.value(dense_weight_), parameters_.value(dense_bias_).data, saved.dense,
                               saved.activated);
  ops::residual_layer_norm_forward(pass.dropout(0.0f, settings_.site), pass.batch.masked, saved.activated, nullptr, {},
                                   parameters_.value(gamma_).data, parameters_.value(beta_).data,
                                   settings_.layer_norm_epsilon, saved.features, saved.statistics.row(0),
                                   saved.statistics.row(1));
  engine.products.forward(saved.features, parameters_.value(decoder_), parameters_.value(bias_).data, saved.logits);
}

void MaskedLmHead::loss(const Pass& pass, float scale, Saved& saved) const {
  ops::cross_entropy(saved.logits, pass.batch.masked_labels, scale, saved.row_losses.data,
                     pass.training ? saved.logits : Tensor<float>());
}

void MaskedLmHead::backward_input(Engine& engine, const Pass& pass, Saved& saved, Tensor<float> d_x) const {
  engine.products.backward_input(saved.logits, parameters_.value(decoder_), saved.d_features, ops::Write::replace);
  ops::residual_layer_norm_backward(pass.dropout(0.0f, settings_.site), pass.batch.masked, saved.d_features,
                                    saved.activated, parameters_.value(gamma_).data, saved.statistics.row(0),
                                    saved.statistics.row(1), saved.d_dense, {});
  ops::gelu_backward(saved.dense, saved.d_dense, saved.d_dense);
  engine.products.backward_input(saved.d_dense, parameters_.value(dense_weight_), d_x, ops::Write::replace);
}

void MaskedLmHead::backward_weight(Engine& engine, const Saved& saved, Tensor<const float> x) const {
  engine.products.backward_weight(saved.logits, saved.features, parameters_.gradient(decoder_),
                                  parameters_.gradient(bias_).data, ops::Write::accumulate);
  ops::layer_norm_backward_weight(saved.d_features, saved.activated, saved.statistics.row(0), saved.statistics.row(1),
                                  parameters_.gradient(gamma_).data, parameters_.gradient(beta_).data,
                                  ops::Write::accumulate);
  engine.products.backward_weight(saved.d_dense, x, parameters_.gradient(dense_weight_),
                                  parameters_.gradient(dense_bias_).data, ops::Write::accumulate);
}

}  // namespace bert_hpc::layers
