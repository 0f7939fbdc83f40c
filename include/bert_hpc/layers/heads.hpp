// What stands on top of the encoder. A head reads some token rows only (the encoder's last block computes no others),
// turns them into logits and a loss, and starts the backward pass. The first two have one shape: a dense layer, an
// activation, features made of it, and a linear layer to the logits.
//   SequenceHead: logits = dropout(tanh(first·Wpᵀ + bp))·Wcᵀ + bc, the pooler and
//     classifier of BertForSequenceClassification; other families have relu or gelu for tanh, or drop `first` too.
//   MaskedLmHead: logits = layer_norm(gelu(masked·Wtᵀ + bt))·Eᵀ + b with the word embeddings E tied to the decoder, as
//     in BertForMaskedLM.
//   TokenHead: logits = dropout(row)·Wcᵀ + bc.
// In a tensor group all but the second are computed the same on every rank: they are small, and so are their weights.
// Of the second the decoder and its bias are shared out by vocabulary, logits and loss with them; what comes before is
// computed of each rank's rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/costs.hpp"
#include "bert_hpc/layers/linear.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/layers/tensor_group.hpp"
#include "bert_hpc/ops/weighted_cross_entropy.hpp"

namespace bert_hpc::layers {

class Head;
struct HeadSettings;

/// row_losses (rows) of logits (rows, outputs) and, where d_logits has data, the gradient of Σ row losses · scale at
/// the logits; d_logits may be logits. `batch` has targets. `options` are those of a cross entropy with classes; other
/// losses have none.
using LossFunction = void (*)(const core::MicroBatch& batch, const ops::CrossEntropyOptions& options, float scale,
                              Tensor<float> logits, float* row_losses, Tensor<float> d_logits);

/// What a loss over a whole step reads: rows of the micro-batches of all replicas, in the order of the step's batch
/// plan.
struct StepOutputs {
  Tensor<const float> logits;     ///< (rows, outputs)
  const float* values = nullptr;  ///< (rows, columns), as in core::Targets
};

/// As LossFunction, of a loss that needs the outputs of all sequences of a step: for the rows from `begin` on,
/// row_losses and d_logits (own rows, outputs), which is the gradient of the sum of all rows' losses · scale.
using StepLossFunction = void (*)(const StepOutputs& all, std::int64_t begin, float scale, float* row_losses,
                                  Tensor<float> d_logits);

/// Cross entropy with targets.classes; squared error with targets.values of one output; cross entropy of spans' ends
/// with targets.spans (ops/span_cross_entropy.hpp).
void cross_entropy_loss(const core::MicroBatch& batch, const ops::CrossEntropyOptions& options, float scale,
                        Tensor<float> logits, float* row_losses, Tensor<float> d_logits);
void squared_error_loss(const core::MicroBatch& batch, const ops::CrossEntropyOptions& options, float scale,
                        Tensor<float> logits, float* row_losses, Tensor<float> d_logits);
void span_loss(const core::MicroBatch& batch, const ops::CrossEntropyOptions& options, float scale,
               Tensor<float> logits, float* row_losses, Tensor<float> d_logits);

/// What the rest of the program may ask of a head before it is made. A task chooses one; the model knows no task.
struct HeadKind {
  const char* class_suffix;  ///< of the name of Transformers' class with this head: "ForMaskedLM"
  /// The decoder's weights are the word embeddings, and the outputs the vocabulary; else the outputs are labels.
  bool ties_word_embeddings = false;
  bool reads_all_tokens = false;          ///< else a selection of them
  bool is_token_head = false;             ///< logits of the rows that it reads, without a dense layer before
  const char* classifier = "classifier";  ///< name of the layer to the logits in Transformers; unused where tied
  std::int64_t fixed_outputs = 0;         ///< outputs whatever the labels; 0: one for each label
  LossFunction loss = nullptr;            ///< of a head that has one for every task

  void (*declare)(const HeadSettings&, std::vector<core::ParameterSpec>&, const TensorRank&) = nullptr;
  std::unique_ptr<Head> (*make)(const HeadSettings&, const core::ParameterStore&, const TensorGroup&) = nullptr;
  LayerCosts (*costs)(const HeadSettings&, const BatchShape&) = nullptr;

  std::int64_t outputs(std::int64_t vocabulary, std::int64_t labels) const {
    if (ties_word_embeddings) return vocabulary;
    return fixed_outputs > 0 ? fixed_outputs : labels;
  }
};

/// SequenceHead with this loss; MaskedLmHead; TokenHead with cross entropy; TokenHead of all tokens with the two scores
/// of a span's ends.
HeadKind sequence_head(LossFunction loss = cross_entropy_loss);
HeadKind masked_lm_head();
HeadKind token_head();
HeadKind span_head();

struct HeadSettings {
  HeadKind kind;
  std::int64_t hidden = 0, outputs = 0;  ///< outputs: labels, or the vocabulary
  float classifier_dropout = 0.1f;
  float input_dropout = 0.0f;  ///< SequenceHead: before the dense layer; its site is the next after `site`
  float layer_norm_epsilon = 1e-12f;
  DataType storage = DataType::fp32;  ///< of activations
  /// MaskedLmHead: of logits and their gradients where one rank has all outputs; of a share of them they are floats.
  DataType logits = DataType::fp32;
  bool pads_logits = false;  ///< MaskedLmHead: rows of logits begin at multiples of ops::padded_columns()
  std::uint32_t site = 0;
  // Names of parameters without ".weight" and ".bias".
  std::string dense = "dense";               ///< the dense layer's
  std::string classifier = "classifier";     ///< SequenceHead, TokenHead: the layer to the logits
  std::string norm = "norm";                 ///< MaskedLmHead: the layer norm's
  Activation activation = Activation::tanh;  ///< of the dense layer
  // With tied word embeddings, names of whole parameters:
  std::string bias = "bias";                    ///< the decoder's
  std::string word_embeddings = "word.weight";  ///< to which the decoder is tied
  std::int64_t padding_row = -1;                ///< as in EmbeddingsSettings
  /// The parameter that holds the decoder's weights, and whether the head declares it: a copy of the word embeddings
  /// where they are elsewhere, or are to have their gradients summed apart.
  std::string decoder = "decoder.weight";
  bool declares_decoder = false;
};

class Head {
 public:
  virtual ~Head() = default;

  /// What forward leaves for loss, backward and results. Each head derives its own. "here": outputs that this rank has.
  struct SavedActivations {
    virtual ~SavedActivations() = default;
    Matrix logits;             ///< (rows, here); their gradients after loss() in training
    Tensor<float> row_losses;  ///< (1, rows)
  };
  /// An object for micro-batches in flight, made once; allocate_saved() gives it memory for one micro-batch.
  virtual std::unique_ptr<SavedActivations> make_saved() const = 0;
  virtual void allocate_saved(core::Workspace& workspace, std::int64_t rows, SavedActivations& saved) const = 0;

  /// The weights of all its products.
  virtual std::vector<LinearWeight> linear_weights() const = 0;

  /// x (this rank's rows, hidden) → saved.logits.
  virtual void forward(Engine& engine, const StepContext& context, ConstMatrix x, SavedActivations& saved) const = 0;

  /// saved.row_losses (and, in training, the gradient of Σ row losses · scale at the logits). Needs targets in the
  /// batch.
  virtual void loss(const StepContext& context, float scale, SavedActivations& saved) const = 0;

  /// Of the losses of training steps; evaluations have none. Heads with another loss than a class's cross entropy
  /// ignore it.
  virtual void set_loss_options(const ops::CrossEntropyOptions& options) = 0;

  /// The index of each row's largest logit, the first among equals: predicted (rows). After forward(), before any loss
  /// gradient. Collective over the tensor group.
  virtual void predict(SavedActivations& saved, std::int32_t* predicted) const = 0;

  /// d_x (this rank's rows, hidden) is replaced.
  virtual void backward_input(Engine& engine, const StepContext& context, SavedActivations& saved,
                              Matrix d_x) const = 0;

  /// Adds to the gradients of the head's parameters; after backward_input. x as in forward.
  virtual void backward_weight(Engine& engine, const SavedActivations& saved, ConstMatrix x) const = 0;
};

/// Appends the head's parameters.
void declare_head(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs, const TensorRank& place = {});
LayerCosts head_costs(const HeadSettings& settings, const BatchShape& batch);
std::unique_ptr<Head> make_head(const HeadSettings& settings, const core::ParameterStore& parameters,
                                const TensorGroup& group = {});

}  // namespace bert_hpc::layers
