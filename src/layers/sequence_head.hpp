// The pooler and classifier of BertForSequenceClassification, with one output for regression, and the like of other
// families, also for tokens.
#pragma once

#include <optional>

#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/layers/layer_norm.hpp"

namespace bert_hpc::layers {

class SequenceHead : public Head {
 public:
  /// The same on every rank of a tensor group.
  static void declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                      const TensorRank& tensor_rank);
  SequenceHead(const HeadSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group);

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<Saved>(); }
  void allocate_saved(core::Workspace& workspace, const HeadBatch& rows, SavedActivations& saved) const override;
  std::vector<LinearWeight> linear_weights() const override;
  void forward(Engine& engine, const StepContext& context, ConstMatrix x, SavedActivations& saved) const override;
  void predict(SavedActivations& saved, std::int32_t* predicted) const override;
  void backward_input(Engine& engine, const StepContext& context, SavedActivations& saved, Matrix d_x) const override;
  void backward_weight(Engine& engine, const SavedActivations& saved, ConstMatrix x) const override;

 private:
  struct Saved : SavedActivations {
    Matrix input;              ///< (rows, hidden): x after pooling or dropout; empty without
    Matrix dense;              ///< (dense rows, hidden): the dense layer's result
    Matrix activated;          ///< (dense rows, hidden): the same memory, but with gelu, whose gradient needs `dense`
    Matrix normalized;         ///< (rows, hidden): if there is a layer norm
    Tensor<float> statistics;  ///< (2, rows): its mean, rstd
    Matrix features;           ///< (rows, hidden): what the logits are made of
    Matrix d_features;         ///< (rows, hidden)
    Matrix d_dense;            ///< (dense rows, hidden): at the dense layer's result; may be the memory of d_features
    Matrix d_input;            ///< (rows, hidden): before pooling's gradient; empty without
  };
  // dense rows: all tokens if what the dense layer makes of them is pooled, else rows.

  bool drops_input() const { return settings_.input_dropout > 0.0f; }
  bool pools_input() const { return settings_.pooling && !settings_.pools_dense; }
  void activate(Saved& saved) const;
  /// d_dense from d_activated, which may be d_dense.
  void activate_backward(const Saved& saved, const Matrix& d_activated) const;
  void normalize(const core::TokenRows& rows, Saved& saved) const;
  /// x of all ranks of the group, after pooling or dropout.
  ConstMatrix input(const Saved& saved, ConstMatrix x, std::int64_t rows) const {
    return drops_input() || pools_input() ? ConstMatrix(saved.input) : group_.gather(x, rows);
  }

  HeadSettings settings_;
  TensorGroup group_;
  Linear pooler_, classifier_;
  std::optional<NormParameters> norm_;
};

}  // namespace bert_hpc::layers
