// What the two sublayers of an encoder block have in common: finding parameters, and the residual step that each ends
// with (bias, dropout, residual, layer norm), forward and backward.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/layers/layer_norm.hpp"
#include "bert_hpc/layers/sublayer.hpp"
#include "bert_hpc/ops/layer_norm.hpp"

namespace bert_hpc::layers {

class ResidualSublayer : public Sublayer {
 protected:
  /// "rows": those that the sublayer computes, the selected ones or all tokens; "piece": those of them that this rank
  /// of the tensor group has (all in a group of one). Kinds of sublayers add what lies before the residual step.
  struct ResidualActivations : SavedActivations {
    Matrix output_inner;       ///< of the last product's adapter: LinearRows::of_x
    Tensor<float> statistics;  ///< (2, piece): mean, rstd of the norm
  };
  struct ResidualGradients : WeightGradientInputs {
    Matrix d_output;          ///< (piece, hidden): d_y as given
    Matrix d_product;         ///< (piece, hidden): at the result of the last product, Wo's or W2's
    Matrix output_inner;      ///< of the last product's adapter: LinearRows::of_d_y
    Tensor<float> norm_sums;  ///< if row sums are fused: partial sums of the gradients of γ, β and the last bias
  };

  /// `site`: the dropout of the sublayer's result, counted in its block.
  ResidualSublayer(const SublayerSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group,
                   std::uint32_t site);

  /// Appends weight and bias of the last product, (hidden, its share of `columns`), and of the layer norm.
  static void declare_output(const SublayerSettings& settings, std::int64_t columns,
                             std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank);

  /// Appends the adapters of those of these layers, which read the same input, that have one. A tensor group shares out
  /// `split` of them.
  static void declare_adapters(const SublayerSettings& settings, const std::vector<AdaptedLayer>& reading,
                               LayerSplit split, std::vector<core::ParameterSpec>& specs,
                               const TensorRank& tensor_rank);

  /// The linear layer with parameters of this name, or so many joined ones.
  /// `input`: which of the sublayer's inputs of linear layers it reads, for the dropout of adapters.
  LinearSettings linear_settings(const std::string& name, std::uint32_t input, std::int64_t joined) const;
  Linear linear(const std::string& name, std::uint32_t input, std::int64_t joined = 1) const {
    return {parameters_, linear_settings(name, input, joined)};
  }

  static const core::TokenRows& rows_of(const StepContext& context, const RowSelection* selection) {
    return selection != nullptr ? selection->rows : context.batch.tokens;
  }
  static LinearRows of(const StepContext& context, const core::TokenRows& rows, const Matrix& of_x,
                       const Matrix& of_d_y = {}) {
    return {&context, &rows, of_x, of_d_y};
  }
  static std::int64_t row_count(std::int64_t tokens, const RowSelection* selection) {
    return selection != nullptr ? selection->rows.count : tokens;
  }
  void allocate_output(core::Workspace& workspace, std::int64_t rows, ResidualActivations& saved) const;
  /// d_product and norm_sums.
  void allocate_product(core::Workspace& workspace, std::int64_t rows, ResidualGradients& deferred) const;

  /// From inner (rows, its columns) to saved.sum = residual + dropout(inner·weightᵀ + bias) and saved.output, with the
  /// residual (piece, hidden).
  void finish_forward(Engine& engine, const StepContext& context, const core::TokenRows& rows,
                      const ops::ProductOperand& inner, ConstMatrix residual, ResidualActivations& saved) const;
  /// From d_y to deferred.d_output, deferred.d_product, deferred.norm_sums and the gradient of the sum, which replaces
  /// d_sum (piece, hidden).
  void begin_backward(const StepContext& context, const core::TokenRows& rows, const ResidualActivations& saved,
                      const StreamGradient& d_y, ResidualGradients& deferred, const Matrix& d_sum) const;
  /// The gradients that deferred.norm_sums adds up to, if row sums are fused; no launch of their own is worth them.
  ops::ColumnSums norm_gradients(const ResidualGradients& deferred) const;
  /// Adds the gradients of the last product and of the layer norm, those of norm_gradients() excepted.
  void add_output_gradients(Engine& engine, const StepContext& context, const core::TokenRows& rows,
                            const ResidualActivations& saved, const ResidualGradients& deferred,
                            const ops::ProductOperand& inner) const;

  /// In a tensor group the norm has this rank's rows alone, and the bias after the last product all of them.
  bool fuses_norm_sums() const {
    return settings_.fuses_row_sums && !group_.shared() && settings_.hidden <= ops::max_summed_columns;
  }

  SublayerSettings settings_;
  const core::ParameterStore& parameters_;
  TensorGroup group_;
  std::uint32_t output_site_;
  Linear output_;
  NormParameters norm_;
};

}  // namespace bert_hpc::layers
