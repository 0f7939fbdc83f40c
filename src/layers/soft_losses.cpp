#include "bert_hpc/layers/soft_losses.hpp"

namespace bert_hpc::layers {

void soft_class_loss(const SoftLossInput& in) {
  ops::soft_classes(in.terms, in.student, in.teacher, in.row_losses);
}

void soft_name_loss(const SoftLossInput& in) {
  const auto& lists = in.batch.targets.get<core::ListTargets>();
  if (lists.data == nullptr) return ops::soft_names(in.terms, in.student, in.teacher, in.row_losses);
  const float* const relevant = in.batch.targets.get<core::ValueTargets>().data;
  ops::soft_lists(in.terms, in.student, lists.data, lists.count, relevant, in.teacher, in.row_losses);
}

void soft_span_loss(const SoftLossInput& in) {
  ops::soft_spans(in.terms, in.student, in.batch.tokens.offsets, in.batch.lengths, in.batch.sequences, in.teacher,
                  in.row_losses);
}

}  // namespace bert_hpc::layers
