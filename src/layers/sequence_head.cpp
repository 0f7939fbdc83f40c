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

SequenceHead::SequenceHead(const HeadSettings& settings, const core::ParameterStore& parameters,
                           const TensorGroup& group)
    : settings_(settings),
      parameters_(parameters),
      group_(group),
      pooler_weight_(parameters.find("bert.pooler.dense.weight")),
      pooler_bias_(parameters.find("bert.pooler.dense.bias")),
      weight_(parameters.find("classifier.weight")),
      bias_(parameters.find("classifier.bias")) {}

Head::Saved SequenceHead::take_saved(core::Workspace& workspace, std::int64_t rows) const {
  Saved saved;
  saved.dense = workspace.take(rows, settings_.hidden, settings_.storage);
  saved.features = workspace.take(rows, settings_.hidden, settings_.storage);
  saved.d_features = saved.d_dense = workspace.take(rows, settings_.hidden, settings_.storage);
  saved.logits = workspace.take<float>(rows, settings_.outputs);
  saved.row_losses = workspace.take<float>(1, rows);
  return saved;
}

std::vector<LinearWeight> SequenceHead::linear_weights() const {
  return {linear_weight(parameters_, pooler_weight_, true), linear_weight(parameters_, weight_, true)};
}

void SequenceHead::forward(Engine& engine, const Pass& pass, ConstMatrix x, Saved& saved) const {
  engine.products.forward(group_.gather(x, pass.batch.first.count), parameters_.value(pooler_weight_),
                          parameters_.value(pooler_bias_).data, saved.dense);
  ops::tanh_forward(saved.dense, saved.dense);
  ops::dropout(pass.dropout(settings_.classifier_dropout, settings_.site), pass.batch.first, saved.dense,
               saved.features);
  engine.products.forward(saved.features, parameters_.value(weight_), parameters_.value(bias_).data, saved.logits);
}

void SequenceHead::loss(const Pass& pass, float scale, Saved& saved) const {
  const Tensor<float> logits = saved.logits.as<float>(), d_logits = pass.training ? logits : Tensor<float>();
  if (settings_.kind == HeadSettings::Kind::regression) {
    ops::squared_error(logits, pass.batch.values, scale, saved.row_losses.data, d_logits);
  } else {
    ops::cross_entropy(logits, pass.batch.class_labels, scale, saved.row_losses.data, d_logits);
  }
}

void SequenceHead::predict(Saved& saved, std::int32_t* predicted) const {
  ops::arg_max(saved.logits, predicted);
}

void SequenceHead::backward_input(Engine& engine, const Pass& pass, Saved& saved, Matrix d_x) const {
  engine.products.backward_input(saved.logits, parameters_.value(weight_), saved.d_features, ops::Write::replace);
  ops::dropout(pass.dropout(settings_.classifier_dropout, settings_.site), pass.batch.first, saved.d_features,
               saved.d_features);
  ops::tanh_backward(saved.dense, saved.d_features, saved.d_dense);
  engine.products.backward_input(group_.own(saved.d_dense), parameters_.value(pooler_weight_), d_x,
                                 ops::Write::replace);
}

void SequenceHead::backward_weight(Engine& engine, const Saved& saved, ConstMatrix x) const {
  engine.products.backward_weight(saved.logits, saved.features, parameters_.gradient(weight_),
                                  parameters_.gradient(bias_).data, ops::Write::accumulate);
  engine.products.backward_weight(saved.d_dense, group_.gather(x, saved.d_dense.rows),
                                  parameters_.gradient(pooler_weight_), parameters_.gradient(pooler_bias_).data,
                                  ops::Write::accumulate);
}

}  // namespace bert_hpc::layers
