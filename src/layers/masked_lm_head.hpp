// The prediction head of BertForMaskedLM: dense, GELU, layer norm, and a decoder tied to the word embeddings.
#pragma once

#include "bert_hpc/layers/heads.hpp"

namespace bert_hpc::layers {

class MaskedLmHead : public Head {
 public:
  static void declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs);
  MaskedLmHead(const HeadSettings& settings, const core::ParameterStore& parameters);

  RowSelection rows(const core::MicroBatch& batch) const override { return {batch.masked, batch.masked_rows}; }
  void take(core::Workspace& workspace, std::int64_t rows) override;
  void forward(Engine& engine, const Pass& pass, Tensor<const float> x) override;
  void loss(const Pass& pass, float scale) override;
  void backward(Engine& engine, const Pass& pass, Tensor<const float> x, Tensor<float> d_x) override;
  Tensor<float> logits() const override { return logits_; }
  const float* row_losses() const override { return row_losses_.data; }

 private:
  HeadSettings settings_;
  const core::ParameterStore& parameters_;
  int dense_weight_, dense_bias_, gamma_, beta_, decoder_, bias_;
  Tensor<float> dense_;         // (rows, hidden): before GELU
  Tensor<float> activated_;     // (rows, hidden)
  Tensor<float> normalized_;    // (rows, hidden)
  Tensor<float> statistics_;    // (2, rows)
  Tensor<float> d_normalized_;  // (rows, hidden)
  Tensor<float> d_dense_;       // (rows, hidden)
  Tensor<float> logits_;        // (rows, vocabulary)
  Tensor<float> row_losses_;    // (1, rows)
};

}  // namespace bert_hpc::layers
