// An LSTM layer in both directions: one product for the inputs of all tokens, and the recurrence of ops/lstm.hpp.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/layers/recurrent_sublayers.hpp"
#include "bert_hpc/ops/lstm.hpp"

namespace bert_hpc::layers {

class Lstm : public Sublayer {
 public:
  Lstm(const SublayerSettings& settings, const LstmSettings& own, const core::ParameterStore& parameters,
       const TensorGroup& group);

  static void declare(const SublayerSettings& settings, const LstmSettings& own,
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
  struct Saved : SavedActivations {
    Matrix gates, previous;  ///< (tokens, 8·states), (tokens, 2·states): see ops::LstmActivations
    Tensor<float> cells;     ///< (tokens, 2·states)
    Tensor<float> bias;      ///< (1, 8·states): the sum of both biases

    ops::LstmActivations activations() const { return {gates, cells, previous, output}; }
  };
  struct Deferred : WeightGradientInputs {
    Matrix d_gates;  ///< (tokens, 8·states)
  };

  /// Weights of both directions, which lie one behind the other.
  Tensor<const float> input_weight() const {
    const Tensor<const float> first = parameters_.value(input_weight_);
    return {first.data, 2 * first.rows, first.columns};
  }
  ops::LstmWeights weights(const Saved& saved) const {
    return {{parameters_.value(state_weight_[0]), parameters_.value(state_weight_[1])}, saved.bias.data};
  }

  SublayerSettings settings_;
  LstmSettings own_;
  const core::ParameterStore& parameters_;
  int input_weight_, state_weight_[2], input_bias_, state_bias_;  // of joined parameters the first one
};

}  // namespace bert_hpc::layers
