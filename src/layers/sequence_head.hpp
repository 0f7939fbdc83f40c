// The pooler and classifier of BertForSequenceClassification; one output for regression.
#pragma once

#include "bert_hpc/layers/heads.hpp"

namespace bert_hpc::layers {

class SequenceHead : public Head {
 public:
  static void declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs);
  SequenceHead(const HeadSettings& settings, const core::ParameterStore& parameters);

  RowSelection rows(const core::MicroBatch& batch) const override { return {batch.first, batch.first_rows}; }
  void take(core::Workspace& workspace, std::int64_t rows) override;
  void forward(Engine& engine, const Pass& pass, Tensor<const float> x) override;
  void loss(const Pass& pass, float scale) override;
  void backward(Engine& engine, const Pass& pass, Tensor<const float> x, Tensor<float> d_x) override;
  Tensor<float> logits() const override { return logits_; }
  const float* row_losses() const override { return row_losses_.data; }

 private:
  HeadSettings settings_;
  const core::ParameterStore& parameters_;
  int pooler_weight_, pooler_bias_, weight_, bias_;
  Tensor<float> pooled_;      // (rows, hidden): tanh's result
  Tensor<float> dropped_;     // (rows, hidden)
  Tensor<float> d_pooled_;    // (rows, hidden)
  Tensor<float> logits_;      // (rows, outputs)
  Tensor<float> row_losses_;  // (1, rows)
};

}  // namespace bert_hpc::layers
