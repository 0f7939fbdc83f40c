// The pooler and classifier of BertForSequenceClassification; one output for regression.
#pragma once

#include "bert_hpc/layers/heads.hpp"

namespace bert_hpc::layers {

class SequenceHead : public Head {
 public:
  /// The same on every rank of a tensor group.
  static void declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs, const TensorPlace& place);
  SequenceHead(const HeadSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group);

  SavedActivations allocate_saved(core::Workspace& workspace, std::int64_t rows) const override;
  std::vector<LinearWeight> linear_weights() const override;
  void forward(Engine& engine, const StepContext& context, ConstMatrix x, SavedActivations& saved) const override;
  void loss(const StepContext& context, float scale, SavedActivations& saved) const override;
  void predict(SavedActivations& saved, std::int32_t* predicted) const override;
  void backward_input(Engine& engine, const StepContext& context, SavedActivations& saved, Matrix d_x) const override;
  void backward_weight(Engine& engine, const SavedActivations& saved, ConstMatrix x) const override;

 private:
  HeadSettings settings_;
  const core::ParameterStore& parameters_;
  TensorGroup group_;
  Linear pooler_, classifier_;
};

}  // namespace bert_hpc::layers
