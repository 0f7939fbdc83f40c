#include "bert_hpc/layers/soft_losses.hpp"

#include <cstddef>
#include <span>

#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::layers {

void soft_class_loss(const SoftLossInput& in) {
  if (in.share == nullptr) return ops::soft_classes(in.terms, in.student, in.teacher, in.row_losses);
  const auto& [group, first_output, all_outputs, sums] = *in.share;
  const Tensor<const float> student = in.student.as<float>();
  const Tensor<float> maxima = sums.row_range(0, 2), totals = sums.row_range(2, 4);
  ops::class_shard_maxima(student, maxima.row(0));
  ops::class_shard_maxima(in.teacher, maxima.row(1));
  group.all_reduce({maxima.data, static_cast<std::size_t>(maxima.size())}, comm::Reduction::maximum);
  ops::soft_class_shard_totals(in.terms, student, in.teacher, maxima, totals);
  group.all_reduce({totals.data, static_cast<std::size_t>(totals.size())}, comm::Reduction::sum);
  ops::soft_class_shards(in.terms, all_outputs, student, in.teacher, maxima, totals, in.row_losses);
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
