// A number for each sequence, as Transformers' sequence classification with one label has it. The loss is the squared
// error, or 1 − the concordance between a step's predictions and labels. Concordance is the same for standardized
// numbers. With a range of predictions (a batch says so) the loss is the squared error of the outputs' sigmoids.
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/ops/concordance_loss.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::objectives {
namespace {

void squared_error(const layers::LossInput& in) {
  const auto& targets = in.targets<core::ValueTargets>();
  if (!targets.bounded) return layers::squared_error_loss(in);
  ops::sigmoid_squared_error(in.logits(), targets.data, in.scale, in.row_losses, in.d_logits());
}

void concordance(const layers::StepOutputs& all, std::int64_t begin, float scale, float* row_losses,
                 core::Tensor<float> d_logits) {
  ops::concordance_loss(all.logits, all.values, begin, scale, row_losses, d_logits);
}

}  // namespace

Objective regression() {
  return {.task = tasks::find("regression"),
          .head = layers::sequence_head(squared_error),
          .predict = predict_values,
          .step_losses = {{tasks::concordance_loss, concordance}}};
}

}  // namespace bert_hpc::objectives
