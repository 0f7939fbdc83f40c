// What stands on top of the encoder. A head tells which token rows it reads (the encoder's last block computes only
// those), turns them into logits and a loss, and starts the backward pass.
//   SequenceHead (classification, regression): logits = dropout(tanh(first·Wpᵀ + bp))·Wcᵀ + bc, the pooler and
//     classifier of BertForSequenceClassification.
//   MaskedLmHead: logits = layer_norm(gelu(masked·Wtᵀ + bt))·Eᵀ + b with the word embeddings E tied to the decoder, as
//   in
//     BertForMaskedLM.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/pass.hpp"

namespace bert_hpc::layers {

struct HeadSettings {
  enum class Kind { classification, regression, masked_lm };
  Kind kind = Kind::classification;
  std::int64_t hidden = 0, outputs = 0;  ///< outputs: classes, 1, or the vocabulary
  float classifier_dropout = 0.1f;
  float layer_norm_epsilon = 1e-12f;
  std::uint32_t site = 0;
};

class Head {
 public:
  virtual ~Head() = default;

  /// The rows of this batch that the head reads.
  virtual RowSelection rows(const core::MicroBatch& batch) const = 0;

  /// Takes what a pass over up to `rows` rows needs; call before forward (and while planning).
  virtual void take(core::Workspace& workspace, std::int64_t rows) = 0;

  /// x (rows, hidden) → logits(). With targets in the batch, row_losses() too.
  virtual void forward(Engine& engine, const Pass& pass, Tensor<const float> x) = 0;

  /// Row losses (and, in training, the gradient of Σ row losses · scale at the logits). Needs targets in the batch.
  virtual void loss(const Pass& pass, float scale) = 0;

  /// d_x (rows, hidden) is replaced; adds to the gradients of the head's parameters.
  virtual void backward(Engine& engine, const Pass& pass, Tensor<const float> x, Tensor<float> d_x) = 0;

  virtual Tensor<float> logits() const = 0;     ///< (rows, outputs); gradients after loss() in training
  virtual const float* row_losses() const = 0;  ///< (rows)
};

/// Appends the head's parameters.
void declare_head(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs);
std::unique_ptr<Head> make_head(const HeadSettings& settings, const core::ParameterStore& parameters);

}  // namespace bert_hpc::layers
