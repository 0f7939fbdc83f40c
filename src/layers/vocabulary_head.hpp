// Heads with a logit for each token of the vocabulary, from a decoder tied to the word embeddings: that of
// BertForMaskedLM, with dense layer, GELU and layer norm before it, and that of GPT2LMHeadModel, the decoder alone.
#pragma once

#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/layers/layer_norm.hpp"

namespace bert_hpc::layers {

class VocabularyHead : public Head {
 public:
  static void declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                      const TensorRank& tensor_rank);
  /// Cross entropy with ClassTargets, token ids.
  static void loss(const LossInput& input);
  VocabularyHead(const HeadSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group);

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<Saved>(); }
  void allocate_saved(core::Workspace& workspace, const HeadBatch& rows, SavedActivations& saved) const override;
  std::vector<LinearWeight> linear_weights() const override;
  void forward(Engine& engine, const StepContext& context, ConstMatrix x, SavedActivations& saved) const override;
  std::optional<VocabularyShare> vocabulary_share(const SavedActivations& saved) const override;
  void predict(SavedActivations& saved, std::int32_t* predicted) const override;
  void backward_input(Engine& engine, const StepContext& context, SavedActivations& saved, Matrix d_x) const override;
  void backward_weight(Engine& engine, const SavedActivations& saved, ConstMatrix x) const override;

 private:
  static constexpr std::int64_t shard_sum_rows = 6;  ///< of VocabularyShare::sums

  /// "piece": this rank's rows in a tensor group, otherwise all; "decoded": columns of the decoder. Without a dense
  /// layer there are only logits.
  struct Saved : SavedActivations {
    Matrix dense;                    ///< (piece, decoded): before GELU
    Matrix activated;                ///< (piece, decoded)
    Tensor<float> statistics;        ///< (2, piece): mean, rstd
    Matrix features;                 ///< (piece, decoded): what the logits are made of
    Tensor<float> shard_sums;        ///< (shard_sum_rows, rows of the logits): if outputs are shared out
    Tensor<std::int32_t> predicted;  ///< (1, rows): in parts, of an evaluation
    ConstMatrix x;                   ///< (piece, hidden): input of forward(), which parts read again
    Matrix d_features;               ///< (piece, decoded)
    Matrix d_dense;                  ///< (piece, decoded): at the result of the dense layer
  };

  /// Layers before the decoder.
  struct Transform {
    Linear dense;
    NormParameters norm;
  };

  void allocate_transform(core::Workspace& workspace, std::int64_t rows, Saved& saved) const;
  bool needs_parts(std::int64_t rows) const { return settings_.rows_at_once > 0 && rows > settings_.rows_at_once; }
  /// Calls visit(first row, rows) for the parts of `rows` rows in order. They depend on the number of rows alone.
  template <class Visit>
  void for_parts(std::int64_t rows, const Visit& visit) const;
  /// What the logits of all rows are made of, on all ranks. Collective.
  ConstMatrix features(const Saved& saved, ConstMatrix x, std::int64_t rows) const {
    return group_.gather(transform_ ? saved.features : x, rows);
  }
  /// Writes row losses and, if `training`, the gradient of Σ row losses · scale over the logits.
  static void token_loss(Matrix logits, const std::int32_t* ids, float scale, bool training,
                         const std::optional<VocabularyShare>& share, float* row_losses);
  void predict(Matrix logits, const std::optional<VocabularyShare>& share, std::int32_t* predicted) const;
  /// The share of vocabulary_share(), with sums of the first `rows` rows of the logits.
  std::optional<VocabularyShare> share_of(const Saved& saved, std::int64_t rows) const;
  /// Row losses and predictions of all rows, whichever of them the caller reads.
  void evaluate_parts(Engine& engine, const StepContext& context, ConstMatrix features, Saved& saved) const;
  /// Row losses, d_features (rows, decoded), and the gradients of the decoder's parameters, which are added.
  void train_parts(Engine& engine, const StepContext& context, ConstMatrix features, Saved& saved,
                   Matrix d_features) const;

  HeadSettings settings_;
  TensorGroup group_;
  std::int64_t first_output_, outputs_;  // of the vocabulary, here
  Linear decoder_;
  std::optional<Transform> transform_;
};

}  // namespace bert_hpc::layers
