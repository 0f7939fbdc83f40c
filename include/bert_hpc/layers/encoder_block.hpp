// One block of BERT's encoder (Devlin et al. 2019; post-norm as in Vaswani et al. 2017):
//   h = layer_norm(x + dropout(attention(x)·Woᵀ + bo)),  y = layer_norm(h + dropout(gelu(h·Wiᵀ + bi)·W2ᵀ + b2)).
//
// A block may be asked for a selection of its output rows only. The last block of a model always is: a classifier reads
// one row a sequence, masked language modelling 15% of them. Keys and values are then computed for every token, all
// else for the selected rows alone: the same numbers for a fraction of the work.
//
// In a tensor group a rank has the rows of the query, key, value and intermediate weights that belong to its heads and
// feed-forward columns, and those columns of the two output weights; biases of the output weights and layer norms are
// whole. What lies between products is kept in pieces of token rows and gathered for each product that needs it.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/pass.hpp"
#include "bert_hpc/layers/tensor_group.hpp"

namespace bert_hpc::layers {

struct EncoderBlockSettings {
  std::string prefix;  ///< e.g. "bert.encoder.layer.0."
  std::int64_t hidden = 0, heads = 0, intermediate = 0;
  float layer_norm_epsilon = 1e-12f;
  float hidden_dropout = 0.1f, attention_dropout = 0.1f;
  DataType storage = DataType::fp32;  ///< of activations
  std::uint32_t first_site = 0;       ///< dropout sites first_site … first_site + 2
};

class EncoderBlock {
 public:
  /// Appends this block's parameters. Query, key and value weights lie behind each other, as do their biases, so that
  /// one product computes all three.
  static void declare(const EncoderBlockSettings& settings, std::vector<core::ParameterSpec>& specs,
                      const TensorPlace& place = {});

  EncoderBlock(const EncoderBlockSettings& settings, const core::ParameterStore& parameters,
               const TensorGroup& group = {});

  /// What backward needs of forward. "rows": the selected rows, or all tokens where there is no selection; "piece":
  /// those of them that this rank of the tensor group has (all in a group of one), as "width" and "wide" are what it
  /// has of the hidden and the intermediate columns.
  struct Saved {
    Matrix x_selected;          ///< (rows, hidden), only with a selection
    Matrix query;               ///< (rows, width)
    Matrix key_value;           ///< (tokens, 2·width); without a selection it and `query` are columns of
    Matrix query_key_value;     ///< (tokens, 3·width)
    Matrix context;             ///< (rows, width): attention's result
    Tensor<float> log_sum_exp;  ///< (heads here, rows)
    Matrix attention_sum;       ///< (piece, hidden): before the first layer norm
    Matrix attention_output;    ///< (piece, hidden): h
    Matrix intermediate;        ///< (rows, wide): before GELU
    Matrix activated;           ///< (rows, wide): after GELU
    Matrix output_sum;          ///< (piece, hidden): before the second layer norm
    Matrix output;              ///< (piece, hidden): y
    Tensor<float> statistics;   ///< (4, piece): mean, rstd of the first layer norm, then of the second
  };

  /// What the weight gradients need of the gradients.
  struct Kept {
    Matrix d_output;            ///< (piece, hidden): d_y as given
    Matrix d_feed_forward;      ///< (piece, hidden): at the result of W2
    Matrix d_intermediate;      ///< (rows, wide): before GELU
    Matrix d_attention_output;  ///< (piece, hidden): d_h
    Matrix d_projection;        ///< (piece, hidden): at the result of Wo
    Matrix d_query;             ///< (rows, width)
    Matrix d_key_value;         ///< (tokens, 2·width); without a selection it and `d_query` are columns of
    Matrix d_query_key_value;   ///< (tokens, 3·width)
  };

  /// `selection` is null where every row is computed.
  Saved take_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const;
  Kept take_kept(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const;

  /// x (this rank's tokens, hidden); the result is saved.output.
  void forward(Engine& engine, const Pass& pass, const RowSelection* selection, ConstMatrix x, Saved& saved) const;

  /// d_y (piece, hidden) must stay until backward_weight; d_x (this rank's tokens, hidden) is replaced. Takes scratch
  /// from the workspace and releases it.
  void backward_input(Engine& engine, const Pass& pass, const RowSelection* selection, const Saved& saved, Matrix d_y,
                      Kept& kept, Matrix d_x, core::Workspace& workspace) const;
  /// What backward_input takes, for planning.
  void plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const;

  /// Adds to the gradients of this block's parameters.
  void backward_weight(Engine& engine, const RowSelection* selection, const Saved& saved, const Kept& kept,
                       ConstMatrix x) const;

 private:
  struct Linear {
    int weight = 0, bias = 0;
  };
  Linear find(const std::string& name) const;
  ops::AttentionExtents extents(const Pass& pass) const;
  void attend(Engine& engine, const Pass& pass, const RowSelection* selection, ConstMatrix x, Saved& saved) const;
  void feed_forward(Engine& engine, const Pass& pass, const core::TokenRows& rows, Saved& saved) const;
  void feed_forward_backward(Engine& engine, const Pass& pass, const core::TokenRows& rows, const Saved& saved,
                             Matrix d_y, Kept& kept) const;
  const float* values(int slice) const { return parameters_.value(slice).data; }
  float* gradients(int slice) const { return parameters_.gradient(slice).data; }
  /// `count` weight matrices (width, hidden) from slice `first` on, as one.
  Tensor<float> joined(Tensor<float> first, std::int64_t count) const {
    return {first.data, count * width_, settings_.hidden};
  }

  EncoderBlockSettings settings_;
  const core::ParameterStore& parameters_;
  TensorGroup group_;
  std::int64_t heads_, width_, wide_;  // here; columns of these heads; intermediate columns
  Linear query_, key_, projection_, attention_norm_, intermediate_, output_, output_norm_;
};

}  // namespace bert_hpc::layers
