// The prediction head of BertForMaskedLM: dense, GELU, layer norm, and a decoder tied to the word embeddings.
#pragma once

#include "bert_hpc/layers/heads.hpp"

namespace bert_hpc::layers {

class MaskedLmHead : public Head {
 public:
  static void declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs, const TensorPlace& place);
  MaskedLmHead(const HeadSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group);

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
  std::int64_t first_output_, outputs_;  // of the vocabulary, here
  Linear dense_, decoder_;
  int gamma_, beta_;
};

}  // namespace bert_hpc::layers
