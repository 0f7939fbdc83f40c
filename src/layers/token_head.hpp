// A head of tokens: logits = dropout(x)·Wᵀ + b at each row that it reads, without a dense layer before, as
// BertForQuestionAnswering has it of all tokens, BertForTokenClassification of those with a label, and
// GPT2ForSequenceClassification of the last one of each sequence, without a bias.
#pragma once

#include "bert_hpc/layers/heads.hpp"

namespace bert_hpc::layers {

class TokenHead : public Head {
 public:
  static void declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                      const TensorRank& tensor_rank);
  TokenHead(const HeadSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group);

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<Saved>(); }
  void allocate_saved(core::Workspace& workspace, const HeadBatch& rows, SavedActivations& saved) const override;
  std::vector<LinearWeight> linear_weights() const override { return {classifier_.weight(true)}; }
  void forward(Engine& engine, const StepContext& context, ConstMatrix x, SavedActivations& saved) const override;
  void predict(SavedActivations& saved, std::int32_t* predicted) const override;
  void backward_input(Engine& engine, const StepContext& context, SavedActivations& saved, Matrix d_x) const override;
  void backward_weight(Engine& engine, const SavedActivations& saved, ConstMatrix x) const override;

 private:
  struct Saved : SavedActivations {
    Matrix features;  ///< (rows, hidden): x after dropout; empty without
  };
  bool drops() const { return settings_.classifier_dropout > 0.0f; }

  HeadSettings settings_;
  TensorGroup group_;
  Linear classifier_;
};

}  // namespace bert_hpc::layers
