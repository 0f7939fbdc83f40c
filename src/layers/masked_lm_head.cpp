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
}

MaskedLmHead::MaskedLmHead(const HeadSettings& settings, const core::ParameterStore& parameters)
    : settings_(settings),
      parameters_(parameters),
      dense_weight_(parameters.find("cls.predictions.transform.dense.weight")),
      dense_bias_(parameters.find("cls.predictions.transform.dense.bias")),
      gamma_(parameters.find("cls.predictions.transform.LayerNorm.weight")),
      beta_(parameters.find("cls.predictions.transform.LayerNorm.bias")),
      decoder_(parameters.find("bert.embeddings.word_embeddings.weight")),
      bias_(parameters.find("cls.predictions.bias")) {}

void MaskedLmHead::take(core::Workspace& workspace, std::int64_t rows) {
  dense_ = workspace.take<float>(rows, settings_.hidden);
  activated_ = workspace.take<float>(rows, settings_.hidden);
  normalized_ = workspace.take<float>(rows, settings_.hidden);
  statistics_ = workspace.take<float>(2, rows);
  d_normalized_ = workspace.take<float>(rows, settings_.hidden);
  d_dense_ = workspace.take<float>(rows, settings_.hidden);
  logits_ = workspace.take<float>(rows, settings_.outputs);
  row_losses_ = workspace.take<float>(1, rows);
}

void MaskedLmHead::forward(Engine& engine, const Pass& pass, Tensor<const float> x) {
  engine.products.forward_gelu(x, parameters_.value(dense_weight_), parameters_.value(dense_bias_).data, dense_,
                               activated_);
  ops::residual_layer_norm_forward(pass.dropout(0.0f, settings_.site), pass.batch.masked, activated_, nullptr, {},
                                   parameters_.value(gamma_).data, parameters_.value(beta_).data,
                                   settings_.layer_norm_epsilon, normalized_, statistics_.row(0), statistics_.row(1));
  engine.products.forward(normalized_, parameters_.value(decoder_), parameters_.value(bias_).data, logits_);
}

void MaskedLmHead::loss(const Pass& pass, float scale) {
  ops::cross_entropy(logits_, pass.batch.masked_labels, scale, row_losses_.data,
                     pass.training ? logits_ : Tensor<float>());
}

void MaskedLmHead::backward(Engine& engine, const Pass& pass, Tensor<const float> x, Tensor<float> d_x) {
  engine.products.backward_weight(logits_, normalized_, parameters_.gradient(decoder_),
                                  parameters_.gradient(bias_).data, ops::Write::accumulate);
  engine.products.backward_input(logits_, parameters_.value(decoder_), d_normalized_, ops::Write::replace);
  ops::layer_norm_backward_weight(d_normalized_, activated_, statistics_.row(0), statistics_.row(1),
                                  parameters_.gradient(gamma_).data, parameters_.gradient(beta_).data,
                                  ops::Write::accumulate);
  ops::residual_layer_norm_backward(pass.dropout(0.0f, settings_.site), pass.batch.masked, d_normalized_, activated_,
                                    parameters_.value(gamma_).data, statistics_.row(0), statistics_.row(1), d_dense_,
                                    {});
  ops::gelu_backward(dense_, d_dense_, d_dense_);
  engine.products.backward_weight(d_dense_, x, parameters_.gradient(dense_weight_),
                                  parameters_.gradient(dense_bias_).data, ops::Write::accumulate);
  engine.products.backward_input(d_dense_, parameters_.value(dense_weight_), d_x, ops::Write::replace);
}

}  // namespace bert_hpc::layers
