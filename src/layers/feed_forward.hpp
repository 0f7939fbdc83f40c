// The feed-forward sublayer of an encoder block: gelu(x·Wiᵀ + bi)·W2ᵀ + b2 and its residual step.
#pragma once

#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "residual_sublayer.hpp"

namespace bert_hpc::layers {

class FeedForward : public ResidualSublayer {
 public:
  FeedForward(const SublayerSettings& settings, const FeedForwardSettings& own, const core::ParameterStore& parameters,
              const TensorGroup& group);

  /// Appends its parameters.
  static void declare(const SublayerSettings& settings, const FeedForwardSettings& own,
                      std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank);

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<Saved>(); }
  std::unique_ptr<WeightGradientInputs> make_deferred() const override { return std::make_unique<Deferred>(); }
  void allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                      std::int64_t dropout_tiles, SavedActivations& saved) const override;
  void allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                         WeightGradientInputs& deferred) const override;
  std::vector<LinearWeight> linear_weights(bool selects) const override;
  void forward(Engine& engine, const StepContext& context, const RowSelection* selection, const Stream& x,
               SavedActivations& saved) const override;
  void backward_input(Engine& engine, const StepContext& context, const RowSelection* selection,
                      const SavedActivations& saved, const StreamGradient& d_y, WeightGradientInputs& deferred,
                      const StreamGradient& d_x, core::Workspace& workspace) const override;
  void plan_scratch(core::Workspace&, std::int64_t, const RowSelection*) const override {}
  void backward_weight(Engine& engine, const StepContext& context, const RowSelection* selection,
                       const SavedActivations& saved, const WeightGradientInputs& deferred,
                       ConstMatrix x) const override;

 private:
  /// "wide": the intermediate columns of this rank.
  struct Saved : ResidualActivations {
    Matrix intermediate;        ///< (rows, wide): before the activation
    Matrix activated;           ///< (rows, wide): after it; unused where products compute their operands
    Matrix intermediate_inner;  ///< of the first product's adapter: LinearRows::of_x
  };
  struct Deferred : ResidualGradients {
    Matrix d_intermediate;      ///< (rows, wide): before GELU; after GELU where products compute their operands
    Matrix intermediate_inner;  ///< of the first product's adapter: LinearRows::of_d_y
    /// (ProductOperand::partial_sums(rows), wide), if row sums are fused: the gradient of its bias in parts, or as a
    /// whole in the first row.
    Tensor<float> intermediate_sums;
  };

  /// Whether the kernel of the activation's gradient begins the gradient of the bias before it.
  bool fuses_bias_sums() const { return settings_.fuses_row_sums && activation_ == Activation::gelu; }
  /// Whether the products round GELU and its gradient instead of reading them from memory.
  bool rounds_gelu(const Engine& engine) const {
    return fuses_bias_sums() && intermediate_.computes_operands(engine) && output_.computes_operands(engine);
  }
  static ops::ProductOperand gradient_of(const Saved& saved, const Deferred& deferred) {
    return ops::ProductOperand::gelu_gradient(deferred.d_intermediate, saved.intermediate, deferred.intermediate_sums);
  }

  std::int64_t wide_;  // intermediate columns here
  Activation activation_;
  Linear intermediate_;
};

}  // namespace bert_hpc::layers
