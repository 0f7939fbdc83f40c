// The attention sublayer of an encoder block: queries, keys and values, attention, output projection, residual step.
#pragma once

#include <optional>

#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/ops/fusion.hpp"
#include "bert_hpc/ops/rotary.hpp"
#include "distance_bias.hpp"
#include "relative_embeddings.hpp"
#include "residual_sublayer.hpp"

namespace bert_hpc::layers {

class SelfAttention : public ResidualSublayer {
 public:
  SelfAttention(const SublayerSettings& settings, const AttentionSettings& own, const core::ParameterStore& parameters,
                const TensorGroup& group);

  /// Appends its parameters.
  static void declare(const SublayerSettings& settings, const AttentionSettings& own,
                      std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank);

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<Saved>(); }
  std::unique_ptr<WeightGradientInputs> make_deferred() const override { return std::make_unique<Deferred>(); }
  void allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                      std::int64_t dropout_tiles, SavedActivations& saved) const override;
  void allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                         WeightGradientInputs& deferred) const override;
  std::vector<LinearWeight> linear_weights(bool selects) const override;
  std::vector<LinearWeight> other_weights() const override;
  void forward(Engine& engine, const StepContext& context, const RowSelection* selection, const Stream& x,
               SavedActivations& saved) const override;
  void backward_input(Engine& engine, const StepContext& context, const RowSelection* selection,
                      const SavedActivations& saved, const StreamGradient& d_y, WeightGradientInputs& deferred,
                      const StreamGradient& d_x, core::Workspace& workspace) const override;
  void plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const override;
  void backward_weight(Engine& engine, const StepContext& context, const RowSelection* selection,
                       const SavedActivations& saved, const WeightGradientInputs& deferred,
                       ConstMatrix x) const override;

 private:
  /// Inner matrices of adapters (LinearRows::of_x or of_d_y): of the joint product, or of two if rows are selected.
  struct Inner {
    Matrix query_key_value{}, query{}, key_value{};
  };
  Inner take_inner(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const;

  /// "width": the columns of this rank's heads; "key width": those of its heads of keys.
  struct Saved : ResidualActivations {
    Inner inner;
    Matrix x_selected;          ///< (rows, hidden), only with a selection
    Matrix residual_selected;   ///< (rows, hidden), only with a selection and if the residual is a sum
    Matrix query;               ///< (rows, width)
    Matrix key_value;           ///< (tokens, 2·key width); without a selection it and `query` are columns of
    Matrix query_key_value;     ///< (tokens, width + 2·key width)
    Matrix repeated;            ///< (tokens, 2·width): keys and values by heads of queries, only if these share them
    Matrix context;             ///< (rows, width): attention's result
    Tensor<float> log_sum_exp;  ///< (heads here, rows)
    Tensor<std::uint64_t> kept_pairs;  ///< (heads here · dropout_tiles, rows): what dropout keeps, see ops::Attention
    RelativeEmbeddings::Saved relative;  ///< only with relative positions

    ops::AttentionResults results() const { return {context, log_sum_exp, kept_pairs}; }
  };
  struct Deferred : ResidualGradients {
    Inner inner;
    Matrix d_query;            ///< (rows, width)
    Matrix d_key_value;        ///< (tokens, 2·key width); without a selection it and `d_query` are columns of
    Matrix d_query_key_value;  ///< (tokens, width + 2·key width)
    Tensor<float> d_bias;      ///< (heads here, 2·tokens) if the position bias is trained: see ops::AttentionGradients
    RelativeEmbeddings::Deferred relative;  ///< only with relative positions that are trained
  };

  /// Whether the biases' gradients share a launch with those of the norm, which epilogues of products cannot.
  bool fuses_bias_sums() const { return settings_.fuses_row_sums && !ops::fusion().bias_gradients; }
  bool sums_distances() const { return relative_ && relative_->is_trained(); }
  void add_to_all_tokens(const Matrix& d_rows, const RowSelection& selection, std::int64_t tokens,
                         const Matrix& all) const;
  ops::AttentionInputs inputs(const StepContext& context, const core::TokenRows& rows, const Saved& saved) const;

  /// Rotates queries and keys, or their gradients back. Without a selection they are columns of the joint matrix.
  void rotate(ops::Rotation rotation, const StepContext& context, const RowSelection* selection, const Matrix& query,
              const Matrix& key_value, const Matrix& query_key_value) const;

  AttentionSettings own_;
  ops::RotaryFrequencies frequencies_;
  DistanceBias bias_;
  std::optional<RelativeEmbeddings> relative_;
  std::int64_t heads_, width_, key_width_;  // here, and the columns of these heads and of their keys
  // Without a selection one product computes all three, with one the first is of the selected rows alone.
  Linear query_key_value_, query_, key_value_;
};

}  // namespace bert_hpc::layers
