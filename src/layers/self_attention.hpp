// The attention sublayer of an encoder block: queries, keys and values, attention, output projection, residual step.
#pragma once

#include "residual_sublayer.hpp"

namespace bert_hpc::layers {

class SelfAttention : public ResidualSublayer {
 public:
  static void declare(const SublayerSettings& settings, std::vector<core::ParameterSpec>& specs,
                      const TensorPlace& place);
  SelfAttention(const SublayerSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group);

  SavedActivations allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                  std::int64_t dropout_tiles) const override;
  WeightGradientInputs allocate_deferred(core::Workspace& workspace, std::int64_t tokens,
                                         const RowSelection* selection) const override;
  std::vector<LinearWeight> linear_weights(bool selects) const override;
  void forward(Engine& engine, const StepContext& context, const RowSelection* selection, ConstMatrix x,
               SavedActivations& saved) const override;
  void backward_input(Engine& engine, const StepContext& context, const RowSelection* selection,
                      const SavedActivations& saved, Matrix d_y, WeightGradientInputs& deferred, Matrix d_x,
                      core::Workspace& workspace) const override;
  void plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const override;
  void backward_weight(Engine& engine, const RowSelection* selection, const SavedActivations& saved,
                       const WeightGradientInputs& deferred, ConstMatrix x) const override;

 private:
  ops::AttentionExtents extents(const StepContext& context) const;

  std::int64_t heads_, width_;  // here, and the columns of these heads
  // Without a selection one product computes all three, with one the first is of the selected rows alone.
  Linear query_key_value_, query_, key_value_;
};

}  // namespace bert_hpc::layers
