// BERT (Devlin et al. 2019) as a list of layers: embeddings, encoder blocks, a head. Parameter names, shapes and
// mathematics are those of Hugging Face's BertForSequenceClassification and BertForMaskedLM.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/encoder_block.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/model/bert_config.hpp"

namespace bert_hpc::model {

using core::Tensor;
using HeadKind = layers::HeadSettings::Kind;

class Bert {
 public:
  /// Every parameter, in the order of a forward pass. `outputs`: classes, 1 for regression, unused for masked_lm.
  static std::vector<core::ParameterSpec> parameters(const BertConfig& config, HeadKind kind, std::int64_t outputs);

  /// `parameters` must outlive the model and hold what parameters() lists.
  Bert(const BertConfig& config, HeadKind kind, std::int64_t outputs, const core::ParameterStore& parameters);

  /// Makes the workspace (while it is planning) large enough for any micro-batch within the bounds.
  void plan(core::Workspace& workspace, const layers::BatchBounds& bounds, bool training);

  /// Up to logits(). The workspace is used from its begin, and belongs to this pass until the next forward.
  void forward(layers::Engine& engine, const layers::Pass& pass, core::Workspace& workspace);

  /// Row losses of the forward pass; in training, the loss gradient too: of Σ row losses · scale.
  void loss(const layers::Pass& pass, float scale) { head_->loss(pass, scale); }

  /// Adds to the gradients of all parameters. `finished(begin)` is called after each part of the model, the arena from
  /// element `begin` on having its final gradients of this pass.
  void backward(layers::Engine& engine, const layers::Pass& pass, core::Workspace& workspace,
                const std::function<void(std::int64_t begin)>& finished);

  Tensor<float> logits() const { return head_->logits(); }         ///< (rows the head reads, outputs)
  const float* row_losses() const { return head_->row_losses(); }  ///< (rows the head reads)
  std::int64_t head_rows(const core::MicroBatch& batch) const { return head_->rows(batch).rows.count; }

 private:
  void take_activations(core::Workspace& workspace, std::int64_t tokens);

  BertConfig config_;
  layers::Embeddings embeddings_;
  std::vector<layers::EncoderBlock> blocks_;
  std::unique_ptr<layers::Head> head_;
  std::vector<std::int64_t> block_begin_;  // arena offset of each block's first parameter
  std::int64_t head_begin_ = 0;

  // The pass under way.
  layers::RowSelection selection_;
  layers::Embeddings::Saved saved_embeddings_;
  std::vector<layers::EncoderBlock::Saved> saved_blocks_;
};

/// Floating-point operations of one training step's products on this many real tokens of these sequence lengths:
/// 72·L·H² per token and 12·L·H·s for attention (forward and backward; intermediate size 4·H), generalised to any
/// intermediate size. What selection saves is not subtracted, so that figures compare with other programs'.
double training_flops(const BertConfig& config, std::int64_t tokens, double sum_of_squared_lengths);

/// Fresh parameters as Hugging Face initialises them: normal(0, initializer_range) weights, zero biases, layer norms at
/// one, the padding row of the word embeddings at zero. A value depends on (seed, parameter's name, element) alone.
void initialize_parameters(const core::ParameterStore& parameters, const BertConfig& config, std::uint64_t seed,
                           const std::vector<std::string>& only = {});

}  // namespace bert_hpc::model
