// A head without parameters: token embeddings as the encoder leaves them, or pooled by sequence. It has no loss and no
// backward pass.
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/ops/activation.hpp"

namespace bert_hpc::layers {
namespace {

class EmbeddingHead : public Head {
 public:
  EmbeddingHead(HeadSettings settings, const TensorGroup& group) : settings_(std::move(settings)), group_(group) {}

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<SavedActivations>(); }
  void allocate_saved(core::Workspace& workspace, std::int64_t rows, SavedActivations& saved) const override;
  std::vector<LinearWeight> linear_weights() const override { return {}; }
  void forward(Engine& engine, const StepContext& context, ConstMatrix x, SavedActivations& saved) const override;
  void predict(SavedActivations& saved, std::int32_t* predicted) const override;
  void backward_input(Engine& engine, const StepContext& context, SavedActivations& saved, Matrix d_x) const override;
  void backward_weight(Engine& engine, const SavedActivations& saved, ConstMatrix x) const override;

 private:
  HeadSettings settings_;
  TensorGroup group_;
};

[[noreturn]] void refuse() {
  throw core::Error(core::ExitCode::internal, "embeddings have neither classes nor gradients");
}

void EmbeddingHead::allocate_saved(core::Workspace& workspace, std::int64_t rows, SavedActivations& saved) const {
  saved = {};
  saved.logits = workspace.take<float>(rows, settings_.outputs);
  saved.row_losses = workspace.take<float>(1, rows);
}

void EmbeddingHead::forward(Engine&, const StepContext& context, ConstMatrix x, SavedActivations& saved) const {
  const core::MicroBatch& batch = context.batch;
  const core::TokenRows& rows = batch.targets.rows;
  const ConstMatrix all = group_.gather(x, rows.count);
  if (!settings_.kind.pooling) return ops::copy(all, saved.logits);
  saved.logits.rows = batch.sequences;
  ops::pool_rows(*settings_.kind.pooling, all, rows, batch.lengths, saved.logits.as<float>());
}

void EmbeddingHead::predict(SavedActivations&, std::int32_t*) const {
  refuse();
}

void EmbeddingHead::backward_input(Engine&, const StepContext&, SavedActivations&, Matrix) const {
  refuse();
}

void EmbeddingHead::backward_weight(Engine&, const SavedActivations&, ConstMatrix) const {
  refuse();
}

/// Rows are read and written once.
LayerCosts costs_of_rows(const HeadSettings& settings, const BatchShape& batch) {
  const double element = static_cast<double>(core::bytes_of(settings.storage)) + sizeof(float);
  const double moved = batch.head_rows * element * static_cast<double>(settings.hidden);
  LayerCosts costs;
  costs.work.forward = {.flops = 0, .bytes = moved, .moved = moved, .passes = 1};
  costs.saved_bytes = batch.head_rows * sizeof(float) * static_cast<double>(settings.outputs);
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

HeadKind token_embedding_head(std::optional<ops::Pooling> pooling) {
  HeadKind kind = embedding_head();
  kind.reads_all_tokens = true;
  kind.pooling = pooling;
  return kind;
}

}  // namespace bert_hpc::layers
