#include "sequence_head.hpp"

#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::layers {

void SequenceHead::declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs) {
  specs.push_back({"bert.pooler.dense.weight", {settings.hidden, settings.hidden}});
  specs.push_back({"bert.pooler.dense.bias", {settings.hidden}, false});
  specs.push_back({"classifier.weight", {settings.outputs, settings.hidden}});
  specs.push_back({"classifier.bias", {settings.outputs}, false});
}

SequenceHead::SequenceHead(const HeadSettings& settings, const core::ParameterStore& parameters)
    : settings_(settings),
      parameters_(parameters),
      pooler_weight_(parameters.find("bert.pooler.dense.weight")),
      pooler_bias_(parameters.find("bert.pooler.dense.bias")),
      weight_(parameters.find("classifier.weight")),
      bias_(parameters.find("classifier.bias")) {}

void SequenceHead::take(core::Workspace& workspace, std::int64_t rows) {
  pooled_ = workspace.take<float>(rows, settings_.hidden);
  dropped_ = workspace.take<float>(rows, settings_.hidden);
  d_pooled_ = workspace.take<float>(rows, settings_.hidden);
  logits_ = workspace.take<float>(rows, settings_.outputs);
  row_losses_ = workspace.take<float>(1, rows);
}

void SequenceHead::forward(Engine& engine, const Pass& pass, Tensor<const float> x) {
  engine.products.forward(x, parameters_.value(pooler_weight_), parameters_.value(pooler_bias_).data, pooled_);
  ops::tanh_forward(pooled_, pooled_);
  ops::dropout(pass.dropout(settings_.classifier_dropout, settings_.site), pass.batch.first, pooled_, dropped_);
  engine.products.forward(dropped_, parameters_.value(weight_), parameters_.value(bias_).data, logits_);
}

void SequenceHead::loss(const Pass& pass, float scale) {
  const Tensor<float> d_logits = pass.training ? logits_ : Tensor<float>();
  if (settings_.kind == HeadSettings::Kind::regression) {
    ops::squared_error(logits_, pass.batch.values, scale, row_losses_.data, d_logits);
  } else {
    ops::cross_entropy(logits_, pass.batch.class_labels, scale, row_losses_.data, d_logits);
  }
}

void SequenceHead::backward(Engine& engine, const Pass& pass, Tensor<const float> x, Tensor<float> d_x) {
  engine.products.backward_weight(logits_, dropped_, parameters_.gradient(weight_), parameters_.gradient(bias_).data,
                                  ops::Write::accumulate);
  engine.products.backward_input(logits_, parameters_.value(weight_), d_pooled_, ops::Write::replace);
  ops::dropout(pass.dropout(settings_.classifier_dropout, settings_.site), pass.batch.first, d_pooled_, d_pooled_);
  ops::tanh_backward(pooled_, d_pooled_, d_pooled_);
  engine.products.backward_weight(d_pooled_, x, parameters_.gradient(pooler_weight_),
                                  parameters_.gradient(pooler_bias_).data, ops::Write::accumulate);
  engine.products.backward_input(d_pooled_, parameters_.value(pooler_weight_), d_x, ops::Write::replace);
}

}  // namespace bert_hpc::layers
