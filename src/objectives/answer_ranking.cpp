// A score for each pair of a query and a passage, as Transformers' sequence classification with one label has it. The
// loss of a pair is the binary cross entropy of its score as a logit; of a query's candidates together, a cross entropy
// over all of them (ops/listwise_cross_entropy.hpp). A batch has what its loss needs.
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/ops/binary_cross_entropy.hpp"
#include "bert_hpc/ops/listwise_cross_entropy.hpp"

namespace bert_hpc::objectives {
namespace {

void loss(const layers::LossInput& in) {
  const float* const relevant = in.targets<core::ValueTargets>().data;
  const auto& lists = in.targets<core::ListTargets>();
  if (lists.data == nullptr) {
    return ops::binary_cross_entropy(in.logits(), relevant, in.scale, in.row_losses, in.d_logits());
  }
  ops::listwise_cross_entropy(in.logits(), lists.data, lists.count, relevant, in.scale, in.row_losses, in.d_logits());
}

}  // namespace

Objective answer_ranking() {
  return {.task = tasks::find("answer_ranking"), .head = layers::sequence_head(loss), .predict = predict_scores};
}

}  // namespace bert_hpc::objectives
