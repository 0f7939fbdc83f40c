#include "bert_hpc/prep/sequence_frame.hpp"

namespace bert_hpc::prep {

SequenceFrame::SequenceFrame(const tokenize::SequenceTemplate& sequence, const tokenize::SpecialIds& ids, bool pairs)
    : before_(ids_of(sequence.before, ids)),
      after_(ids_of(pairs ? sequence.between : sequence.after, ids)),
      second_after_(pairs ? sequence.second_between : 0),
      second_counts_(pairs && sequence.second_type == 0) {
  if (pairs) after_pair_ = ids_of(sequence.after_pair, ids);
}

std::int64_t SequenceFrame::add(std::span<const std::int32_t> first, std::span<const std::int32_t> second,
                                std::vector<std::int32_t>& ids) const {
  const std::int64_t begin = std::ssize(ids);
  const auto append = [&ids](std::span<const std::int32_t> part) { ids.insert(ids.end(), part.begin(), part.end()); };
  append(before_);
  append(first);
  append(after_);
  const std::int64_t of_type_0 = std::ssize(ids) - second_after_;
  append(second);
  append(after_pair_);
  return (second_counts_ ? std::ssize(ids) : of_type_0) - begin;
}

}  // namespace bert_hpc::prep
