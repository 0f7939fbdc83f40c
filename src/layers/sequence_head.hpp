// The pooler and classifier of BertForSequenceClassification; one output for regression.
#pragma once

#include "bert_hpc/layers/heads.hpp"

namespace bert_hpc::layers {

class SequenceHead : public Head {
 public:
  static void declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs);
  SequenceHead(const HeadSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group);

  Saved take_saved(core::Workspace& workspace, std::int64_t rows) const override;
  std::vector<LinearWeight> linear_weights() const override;
  void forward(Engine& engine, const Pass& pass, ConstMatrix x, Saved& saved) const override;
  void loss(const Pass& pass, float scale, Saved& saved) const override;
  void predict(Saved& saved, std::int32_t* predicted) const override;
  void backward_input(Engine& engine, const Pass& pass, Saved& saved, Matrix d_x) const override;
  void backward_weight(Engine& engine, const Saved& saved, ConstMatrix x) const override;

 private:
  HeadSettings settings_;
  const core::ParameterStore& parameters_;
  TensorGroup group_;
  Linear pooler_, classifier_;
};

}  // namespace bert_hpc::layers
