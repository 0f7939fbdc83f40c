// From a row's texts to the ids that a model reads: the tokenizer's template around a text, or around a pair with both
// texts shortened, the longer first, until they fit. For packed text the bare ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

/// How many tokens of a pair of `first` and `second` tokens stay where there is room for `room`, as Hugging Face's
/// "longest_first" has it.
struct PairLengths {
  std::int64_t first, second;
};
PairLengths truncate_longest_first(std::int64_t first, std::int64_t second, std::int64_t room);

class SequenceMaker {
 public:
  /// `tokenizer` must outlive it.
  SequenceMaker(const PrepConfig& config, const tokenize::Tokenizer& tokenizer);

  struct Made {
    std::int64_t first;  ///< tokens of type 0, which come first
    bool truncated;
  };
  /// Replaces `ids` by the row's sequence: at most max_tokens, or any number where text is packed.
  Made make(std::string_view text, std::string_view text_pair, std::vector<std::int32_t>& ids);

 private:
  std::unique_ptr<tokenize::TextEncoder> encoder_;
  std::int64_t max_tokens_;
  bool pairs_, packs_;
  std::vector<std::int32_t> before_, after_, after_pair_;  // special tokens; after_: after the first text
  bool after_counts_, second_counts_;  // as tokens of type 0: after_; the second text and after_pair_
  std::vector<std::int32_t> second_;
};

}  // namespace bert_hpc::prep
