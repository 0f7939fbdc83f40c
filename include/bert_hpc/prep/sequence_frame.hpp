// A tokenizer's template with the ids of its special tokens, around a text or a pair.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/tokenize/sequence_template.hpp"
#include "bert_hpc/tokenize/special_ids.hpp"

namespace bert_hpc::prep {

class SequenceFrame {
 public:
  SequenceFrame() = default;
  SequenceFrame(const tokenize::SequenceTemplate& sequence, const tokenize::SpecialIds& ids, bool pairs);

  std::int64_t before() const { return std::ssize(before_); }  ///< tokens in front of the first text
  std::int64_t after() const { return std::ssize(after_); }    ///< and behind it
  std::int64_t special_tokens() const { return before() + after() + std::ssize(after_pair_); }

  /// Appends the sequence of a text, or of a pair, to `ids`. Returns the number of its tokens of type 0, which come
  /// first.
  std::int64_t add(std::span<const std::int32_t> first, std::span<const std::int32_t> second,
                   std::vector<std::int32_t>& ids) const;

 private:
  std::vector<std::int32_t> before_, after_, after_pair_;
  std::int64_t second_after_ = 0;  // tokens of after_, the last ones, that have the second text's type
  bool second_counts_ = false;     // the second text and after_pair_ count as tokens of type 0
};

}  // namespace bert_hpc::prep
