// A head without parameters: token embeddings as the encoder leaves them, or pooled by sequence.
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/ops/activation.hpp"

namespace bert_hpc::layers {
namespace {

class EmbeddingHead : public Head {
 public:
  EmbeddingHead(HeadSettings settings, const TensorGroup& group) : settings_(std::move(settings)), group_(group) {}

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<Saved>(); }
  void allocate_saved(core::Workspace& workspace, const HeadBatch& rows, SavedActivations& saved) const override;
  std::vector<LinearWeight> linear_weights() const override { return {}; }
  void forward(Engine& engine, const StepContext& context, ConstMatrix x, SavedActivations& saved) const override;
  void predict(SavedActivations& saved, std::int32_t* predicted) const override;
  void backward_input(Engine& engine, const StepContext& context, SavedActivations& saved, Matrix d_x) const override;
  void backward_weight(Engine& engine, const SavedActivations& saved, ConstMatrix x) const override;

 private:
  struct Saved : SavedActivations {
    Tensor<std::int32_t> winners;  ///< (rows, outputs): of maxima; empty without a gradient
    Matrix d_embeddings;           ///< (rows, outputs): the gradient in the storage type; empty for floats
    Matrix d_rows;                 ///< (rows, hidden): of all ranks of the group; empty in a group of one
  };

  bool is_trained() const { return settings_.kind.loss != nullptr; }

  HeadSettings settings_;
  TensorGroup group_;
};

void EmbeddingHead::allocate_saved(core::Workspace& workspace, const HeadBatch& rows,
                                   SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  saved = {};
  saved.logits = workspace.take<float>(rows.selected, settings_.outputs);
  saved.row_losses = workspace.take<float>(1, rows.selected);
  if (!is_trained()) return;
  saved.scratch = workspace.take<float>(rows.selected, settings_.kind.loss_scratch);
  if (settings_.kind.pooling == ops::Pooling::max) {
    saved.winners = workspace.take<std::int32_t>(rows.selected, settings_.outputs);
  }
  if (settings_.storage != DataType::fp32) {
    saved.d_embeddings = workspace.take(rows.selected, settings_.outputs, settings_.storage);
  }
  if (group_.shared()) saved.d_rows = workspace.take(rows.selected, settings_.hidden, settings_.storage);
}

void EmbeddingHead::forward(Engine&, const StepContext& context, ConstMatrix x,
                            SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::MicroBatch& batch = context.batch;
  const core::TokenRows& rows = batch.targets.rows;
  const ConstMatrix all = group_.gather(x, rows.count);
  if (!settings_.kind.pooling) return ops::copy(all, saved.logits);
  saved.logits.rows = saved.row_losses.columns = batch.sequences;
  ops::pool_rows(*settings_.kind.pooling, all, rows, batch.lengths, saved.logits.as<float>(), saved.winners);
}

void EmbeddingHead::predict(SavedActivations&, std::int32_t*) const {
  throw core::Error(core::ExitCode::internal, "embeddings have no classes");
}

void EmbeddingHead::backward_input(Engine&, const StepContext& context, SavedActivations& of_micro_batch,
                                   Matrix d_x) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  core::require(is_trained(), "the gradient of embeddings was not planned");
  Matrix d_y = saved.logits;
  if (settings_.storage != DataType::fp32) {
    d_y = saved.d_embeddings.row_range(0, saved.logits.rows);
    ops::copy(saved.logits, d_y);
  }
  const core::TokenRows& rows = context.batch.targets.rows;
  if (!settings_.kind.pooling) return ops::copy(group_.own(d_y), d_x);
  const Matrix d_rows = group_.shared() ? saved.d_rows : d_x;
  ops::pool_rows_backward(*settings_.kind.pooling, saved.winners, rows, context.batch.lengths, d_y, d_rows);
  if (group_.shared()) ops::copy(group_.own(d_rows), d_x);
}

void EmbeddingHead::backward_weight(Engine&, const SavedActivations&, ConstMatrix) const {}

/// Rows are read and written once.
LayerCosts costs_of_rows(const HeadSettings& settings, const BatchShape& batch) {
  const double element = static_cast<double>(core::bytes_of(settings.storage)) + sizeof(float);
  const double moved = batch.logit_positions * element * static_cast<double>(settings.hidden);
  LayerCosts costs;
  costs.work.forward = {.flops = 0, .bytes = moved, .moved = moved, .passes = 1};
  costs.saved_bytes = batch.logit_positions * sizeof(float) * static_cast<double>(settings.outputs);
  return costs;
}

}  // namespace

HeadKind embedding_head() {
  return {.class_suffix = "Model",
          .outputs_embeddings = true,
          .declare = [](const HeadSettings&, std::vector<core::ParameterSpec>&, const TensorRank&) {},
          .make = [](const HeadSettings& settings, const core::ParameterStore&, const TensorGroup& group)
              -> std::unique_ptr<Head> { return std::make_unique<EmbeddingHead>(settings, group); },
          .costs = costs_of_rows};
}

HeadKind token_embedding_head(std::optional<ops::Pooling> pooling, LossFunction loss, std::int64_t loss_scratch) {
  HeadKind kind = embedding_head();
  kind.reads_all_tokens = true;
  kind.pooling = pooling;
  kind.loss = loss;
  kind.loss_scratch = loss_scratch;
  return kind;
}

}  // namespace bert_hpc::layers
