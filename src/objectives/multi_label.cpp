// A sigmoid for each label name. The loss of a sequence is the mean over names, as in Transformers'
// multi_label_classification.
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/ops/binary_cross_entropy.hpp"

namespace bert_hpc::objectives {
namespace {

void loss(const layers::LossInput& in) {
  ops::binary_cross_entropy(in.logits(), in.targets<core::ValueTargets>().data, in.scale, in.row_losses, in.d_logits());
}

}  // namespace

Objective multi_label() {
  return {.task = tasks::find("multi_label"), .head = layers::sequence_head(loss), .predict = predict_sets};
}

}  // namespace bert_hpc::objectives
