// What stands on top of the encoder. A head reads some token rows only (the encoder's last block computes no others),
// turns them into logits and a loss, and starts the backward pass. The first two have one shape: a dense layer, an
// activation, features made of it, and a linear layer to the logits.
//   SequenceHead: logits = dropout(tanh(first·Wpᵀ + bp))·Wcᵀ + bc, the pooler and
//     classifier of BertForSequenceClassification; other families have relu or gelu for tanh, drop `first` too, have a
//     layer norm behind the activation, the mean of all rows for the first, or this head for tokens (ModernBERT).
//   VocabularyHead: logits = layer_norm(gelu(masked·Wtᵀ + bt))·Eᵀ + b with the word embeddings E tied to the decoder,
//     as in BertForMaskedLM; or without all that is before the decoder, row·Eᵀ, as in GPT2LMHeadModel.
//   TokenHead: logits = dropout(row)·Wcᵀ + bc; also of sequences if these have no dense layer.
//   PretrainingHead: VocabularyHead of masked tokens and SequenceHead of first tokens, as in BertForPreTraining.
//   EmbeddingHead: the rows themselves, or one embedding of each sequence's rows.
// In a tensor group all but the second are computed the same on every rank: they are small, and so are their weights.
// Of the second the decoder and its bias are shared out by vocabulary, logits and loss with them; what comes before is
// computed of each rank's rows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/costs.hpp"
#include "bert_hpc/layers/layer_norm.hpp"
#include "bert_hpc/layers/linear.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/layers/tensor_group.hpp"
#include "bert_hpc/ops/pooling.hpp"
#include "bert_hpc/ops/text_group_loss.hpp"
#include "bert_hpc/ops/weighted_cross_entropy.hpp"

namespace bert_hpc::layers {

class Head;
struct HeadSettings;

/// The outputs that one rank computes if a tensor group shares out the vocabulary.
struct VocabularyShare {
  const TensorGroup& group;
  std::int64_t first_output;  ///< of this rank
  std::int64_t all_outputs;   ///< of the group
  Tensor<float> sums;         ///< (6, rows): scratch memory
};

/// Settings of losses. Each loss reads its own.
struct LossSettings {
  ops::CrossEntropyOptions classes{};
  ops::TextGroupLoss texts{};
  float sequence_weight = 1;  ///< PretrainingHead: of a sequence's loss, that of a masked token being 1
};

/// A micro-batch whose forward pass is done, as a loss reads and writes it.
struct LossInput {
  const core::MicroBatch& batch;  ///< has the targets that the loss reads
  const LossSettings& settings;
  float scale;
  bool training;                  ///< the gradient of Σ row losses · scale at the logits replaces them
  Matrix outputs;                 ///< (rows, outputs here): the logits
  Tensor<float> sequence_logits;  ///< as of Head::SavedActivations; its gradient replaces it too
  float* row_losses;              ///< (rows): written
  float* scratch;                 ///< (rows, HeadKind::loss_scratch): for intermediate results
  const VocabularyShare* share;   ///< null: one rank has all outputs
  bool in_parts = false;          ///< the head computes the loss of `outputs`, as in Head::SavedActivations

  Tensor<float> logits() const { return outputs.as<float>(); }
  Tensor<float> d_logits() const { return training ? logits() : Tensor<float>(); }  ///< without data if there is none
  template <class T>
  const T& targets() const {
    return batch.targets.get<T>();
  }
};

/// Writes row losses and, in training, the gradient. Skips outputs whose loss the head computes in parts. Collective
/// over the tensor group if outputs are shared out.
using LossFunction = void (*)(const LossInput& input);

/// What a loss over a whole step reads: rows of the micro-batches of all replicas, in the order of the step's batch
/// plan.
struct StepOutputs {
  Tensor<const float> logits;    ///< (rows, outputs)
  const void* values = nullptr;  ///< (rows, StepLossKind::columns): targets of 4 bytes each
  float* scratch = nullptr;      ///< (StepLossKind::scratch(rows)): for intermediate results

  template <class T>
  const T* targets() const {
    static_assert(sizeof(T) == sizeof(float));
    return static_cast<const T*>(values);
  }
};

/// A loss that needs the outputs of all sequences of a step.
struct StepLossKind {
  /// For the rows from `begin` on, row_losses and d_logits (own rows, outputs), which is the gradient of the sum of all
  /// rows' losses · scale.
  std::function<void(const StepOutputs& all, std::int64_t begin, float scale, float* row_losses,
                     Tensor<float> d_logits)>
      compute{};
  static const void* values_of(const core::Targets& targets) { return targets.get<core::ValueTargets>().data; }
  /// A micro-batch's targets (rows, columns), of 4 bytes each.
  const void* (*targets)(const core::Targets&) = values_of;
  std::int64_t columns = 1;
  /// Floats of scratch for the rows of all replicas.
  std::int64_t (*scratch)(std::int64_t rows) = [](std::int64_t) { return std::int64_t{0}; };
  /// Whether a step of several micro-batches has two rounds of forward passes: one to the outputs, which keeps nothing,
  /// and one with the backward passes. Memory is then that of a micro-batch, whatever the step's size (Gao et al.,
  /// "Scaling deep contrastive learning batch size under memory limited setup", 2021). Otherwise all micro-batches are
  /// kept until the last forward pass.
  bool looks_ahead = false;

  explicit operator bool() const { return compute != nullptr; }
};

/// Cross entropy with ClassTargets; squared error with ValueTargets; cross entropy of spans' ends with
/// SpanTargets (ops/span_cross_entropy.hpp).
void cross_entropy_loss(const LossInput& input);
void squared_error_loss(const LossInput& input);
void span_loss(const LossInput& input);

/// What the rest of the program may ask of a head before it is made. A task chooses one; the model knows no task.
struct HeadKind {
  const char* class_suffix;      ///< of the name of Transformers' class with this head: "ForMaskedLM"
  bool predicts_tokens = false;  ///< the outputs are the vocabulary; else they are labels
  /// The outputs are of the token after each row's, which the model's attention must not show to it.
  bool predicts_next_tokens = false;
  bool reads_all_tokens = false;  ///< else a selection of them
  bool labels_sequences = false;  ///< beside tokens it predicts two classes of sequences, from their first tokens
  bool is_token_head = false;     ///< logits of the rows that it reads, without a dense layer before
  const char* classifier =
      "classifier";                 ///< name of the layer to the logits in Transformers; unused if it predicts tokens
  std::int64_t fixed_outputs = 0;   ///< outputs whatever the labels; 0: one for each label
  bool outputs_embeddings = false;  ///< the outputs are hidden columns; there are no parameters
  std::optional<ops::Pooling> pooling{};  ///< of embeddings: one row of outputs for each sequence, else for each row
  LossFunction loss = nullptr;            ///< of each micro-batch
  std::int64_t loss_scratch = 0;          ///< numbers of each row for intermediate results of the loss

  void (*declare)(const HeadSettings&, std::vector<core::ParameterSpec>&, const TensorRank&) = nullptr;
  std::unique_ptr<Head> (*make)(const HeadSettings&, const core::ParameterStore&, const TensorGroup&) = nullptr;
  LayerCosts (*costs)(const HeadSettings&, const BatchShape&) = nullptr;

  std::int64_t outputs(std::int64_t vocabulary, std::int64_t hidden, std::int64_t labels) const {
    if (predicts_tokens) return vocabulary;
    if (outputs_embeddings) return hidden;
    return fixed_outputs > 0 ? fixed_outputs : labels;
  }
};

/// SequenceHead with this loss; VocabularyHead for masked tokens, PretrainingHead, VocabularyHead for next tokens;
/// TokenHead with cross entropy;
/// TokenHead of all tokens with the two scores of a span's ends.
HeadKind sequence_head(LossFunction loss = cross_entropy_loss);
HeadKind masked_lm_head();
HeadKind pretraining_head();
HeadKind causal_lm_head();
HeadKind token_head();
HeadKind span_head();
/// EmbeddingHead of the selected rows.
HeadKind embedding_head();
/// EmbeddingHead of all tokens, which are pooled if `pooling` says how. `loss`: of a model that is trained.
HeadKind token_embedding_head(std::optional<ops::Pooling> pooling, LossFunction loss = nullptr,
                              std::int64_t loss_scratch = 0);

/// Token of a sequence that a head of sequences reads.
enum class SequenceToken { first, last };

struct HeadSettings {
  HeadKind kind;
  SequenceToken token = SequenceToken::first;
  std::int64_t hidden = 0, outputs = 0;  ///< outputs: labels, or the vocabulary
  std::int64_t decoder_columns = 0;      ///< VocabularyHead: of the result of its dense layer; 0: hidden
  float classifier_dropout = 0.1f;
  float input_dropout = 0.0f;  ///< SequenceHead: before the dense layer; its site is the next after `site`
  float layer_norm_epsilon = 1e-12f;
  DataType storage = DataType::fp32;  ///< of activations
  /// VocabularyHead: type of logits and their gradients if one rank has all outputs; a share of them is fp32.
  DataType logits = DataType::fp32;
  bool pads_logits = false;  ///< VocabularyHead: rows of logits begin at multiples of ops::padded_columns()
  /// VocabularyHead: limit of the rows that one product computes. More rows are computed in parts, and the decoder's
  /// gradients of the parts are added in order. 0: no limit.
  std::int64_t rows_at_once = 0;
  bool reads_all_logits = false;  ///< VocabularyHead: a loss between outputs reads the logits of all rows
  std::uint32_t site = 0;
  // Names of parameters without ".weight" and ".bias".
  std::string dense = "dense";   ///< the dense layer's; empty: a head of sequences or tokens has none
  bool dense_of_tokens = false;  ///< heads of tokens have the dense layer too
  bool dense_bias = true;        ///< the dense layer has a bias
  bool norms_dense = false;      ///< SequenceHead: a layer norm follows the activation
  NormKind norm_kind = NormKind::layer;
  std::optional<ops::Pooling> pooling{};     ///< SequenceHead: reads all tokens and pools those of each sequence
  bool pools_dense = false;                  ///< it pools what the dense layer makes of each token, not its input
  std::string classifier = "classifier";     ///< SequenceHead, TokenHead: the layer to the logits
  bool classifier_bias = true;               ///< TokenHead
  std::string norm = "norm";                 ///< the layer norm's
  Activation activation = Activation::tanh;  ///< of the dense layer
  // If it predicts tokens, names of whole parameters:
  std::string bias = "bias";                    ///< the decoder's; empty: it has none
  std::string word_embeddings = "word.weight";  ///< to which the decoder may be tied
  bool ties_word_embeddings = false;            ///< the decoder's weights are the word embeddings
  std::int64_t padding_row = -1;                ///< as in EmbeddingsSettings
  /// The parameter that holds the decoder's weights, and whether the head declares it: if it is not tied, or as a copy
  /// of the word embeddings if another stage has these, or if the gradients of both are to be summed separately.
  std::string decoder = "decoder.weight";
  bool declares_decoder = false;
  std::shared_ptr<const HeadSettings> sequences{};  ///< PretrainingHead: of its SequenceHead

  std::int64_t decoded() const { return decoder_columns > 0 ? decoder_columns : hidden; }
  bool reads_all_tokens() const { return kind.reads_all_tokens || pooling.has_value(); }
};

/// Rows of a micro-batch, or bounds of them.
struct HeadBatch {
  std::int64_t selected = 0;  ///< that the head reads
  std::int64_t tokens = 0, sequences = 0;
  bool stores_logits = true;  ///< the head keeps the logits of all rows, even if it computes them in parts
};

class Head {
 public:
  virtual ~Head() = default;

  /// What forward leaves for loss, backward and results. Each head derives its own. "here": outputs that this rank has.
  struct SavedActivations {
    virtual ~SavedActivations() = default;
    /// VocabularyHead: no pass stores all logits; `logits` has memory for a part of the rows. An evaluation's forward
    /// pass writes row losses and predictions; the batch must have targets. In training backward_input() writes row
    /// losses and adds the decoder's gradients.
    bool in_parts = false;
    float scale = 1;                ///< of the loss, as apply_loss() was given
    Matrix logits;                  ///< (rows, here); their gradients after the loss in training
    Tensor<float> sequence_logits;  ///< PretrainingHead: (sequences, 2), whereas `logits` are those of masked tokens
    Tensor<float> row_losses;       ///< (1, rows)
    Tensor<float> scratch;          ///< (rows, HeadKind::loss_scratch)
  };
  /// An object for micro-batches in flight, made once; allocate_saved() gives it memory for one micro-batch.
  virtual std::unique_ptr<SavedActivations> make_saved() const = 0;
  virtual void allocate_saved(core::Workspace& workspace, const HeadBatch& rows, SavedActivations& saved) const = 0;

  /// The weights of all its products.
  virtual std::vector<LinearWeight> linear_weights() const = 0;

  /// x (this rank's rows, hidden) → saved.logits; in parts, what `in_parts` says.
  virtual void forward(Engine& engine, const StepContext& context, ConstMatrix x, SavedActivations& saved) const = 0;

  /// Vocabulary that a tensor group shares out; none otherwise.
  virtual std::optional<VocabularyShare> vocabulary_share(const SavedActivations&) const { return std::nullopt; }

  /// The index of each row's largest logit, the first among equals: predicted (rows). After forward(), before any loss
  /// gradient; in parts, of an evaluation. Collective over the tensor group.
  virtual void predict(SavedActivations& saved, std::int32_t* predicted) const = 0;

  /// d_x (this rank's rows, hidden) is replaced.
  virtual void backward_input(Engine& engine, const StepContext& context, SavedActivations& saved,
                              Matrix d_x) const = 0;

  /// Adds to the gradients of the head's parameters, in parts without the decoder's; after backward_input. x as in
  /// forward.
  virtual void backward_weight(Engine& engine, const SavedActivations& saved, ConstMatrix x) const = 0;
};

/// Appends the head's parameters.
void declare_head(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                  const TensorRank& tensor_rank = {});
LayerCosts head_costs(const HeadSettings& settings, const BatchShape& batch);
std::unique_ptr<Head> make_head(const HeadSettings& settings, const core::ParameterStore& parameters,
                                const TensorGroup& group = {});

/// Applies a loss to what forward() has saved of a micro-batch with targets, and keeps the scale for a head that
/// computes in parts. `settings`: of training steps.
void apply_loss(LossFunction loss, const Head& head, const StepContext& context, float scale,
                const LossSettings& settings, Head::SavedActivations& saved);

}  // namespace bert_hpc::layers
