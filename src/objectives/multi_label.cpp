// A sigmoid for each label name. The loss of a sequence is the mean over names, as in Transformers'
// multi_label_classification.
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/ops/binary_cross_entropy.hpp"

namespace bert_hpc::objectives {
namespace {

void loss(const layers::LossInput& in) {
  ops::binary_cross_entropy(in.logits(), in.targets<core::ValueTargets>().data, in.scale, in.row_losses, in.d_logits());
}

/// A name is in the predicted set from the logit of [task] threshold on; 0.5 without one, and until it is found.
OutputRules rules_of(const RunFacts& run) {
  const config::WordOrNumbers threshold = run.task.list(tasks::threshold_key);
  return {.least_output = output_of(threshold.numbers.empty() ? 0.5 : threshold.numbers.front()),
          .searches_threshold = !threshold.word.empty()};
}

}  // namespace

Objective multi_label() {
  return {.task = tasks::find("multi_label"),
          .head = layers::sequence_head(loss),
          .predict = predict_sets,
          .distillation = {layers::soft_name_loss, {"kl", "mse_logits"}},
          .output_rules = rules_of};
}

}  // namespace bert_hpc::objectives
