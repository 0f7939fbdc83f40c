// From a row's texts to the ids that a model reads: the tokenizer's template around a text or a pair. A text that is
// too long is shortened, of a pair the longer first; of texts that are compared each is a sequence. Or with [tokenizer]
// doc_stride the last text is cut into overlapping windows, each a sequence of its own. For packed text, and for each
// line of a document, the bare ids.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bert_hpc/prep/made_row.hpp"
#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/sequence_frame.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

/// How many tokens of a pair of `first` and `second` tokens stay where there is room for `room`, as Hugging Face's
/// "longest_first" has it.
struct PairLengths {
  std::int64_t first, second;
};
PairLengths truncate_longest_first(std::int64_t first, std::int64_t second, std::int64_t room);

/// Windows of at most `room` tokens over a text of `tokens` tokens, at least one. The first begins at 0 and each
/// further one `step` tokens later, 1 ≤ step ≤ room; the last one ends with the text.
std::vector<Window> windows_of(std::int64_t tokens, std::int64_t room, std::int64_t step);

class SequenceMaker {
 public:
  /// `tokenizer` must outlive it.
  SequenceMaker(const PrepConfig& config, const tokenize::Tokenizer& tokenizer);

  /// Replaces `row` by the sequences of these texts: one, with doc_stride at least one, or one for each text. Each has
  /// at most max_tokens, or any number where text is packed. `negatives`: more texts of tasks that compare them.
  void make(std::string_view text, std::string_view text_pair, MadeRow& row,
            std::span<const std::string_view> negatives = {});
  /// The same of texts whose ids are known; not of tasks with answers or words. Takes the arrays and leaves others.
  void make_of_ids(std::vector<std::int32_t>& ids, std::vector<std::int32_t>& pair_ids, MadeRow& row,
                   std::span<std::vector<std::int32_t>> negatives = {});

 private:
  void cut(MadeRow& row);
  void encode_words(std::string_view text, MadeRow& row);
  void encode_lines(std::string_view text, MadeRow& row);
  void make_truncated(MadeRow& row) const;
  void make_windows(MadeRow& row) const;
  void add_sequence(std::span<const std::int32_t> first, std::span<const std::int32_t> second, MadeRow& row) const;
  void add_window(std::span<const std::int32_t> question, std::span<const std::int32_t> document, const Window& window,
                  MadeRow& row) const;

  std::unique_ptr<tokenize::TextEncoder> encoder_;
  TokenizerConfig settings_;
  std::int64_t room_;  // for the tokens of both texts
  SequenceFrame frame_;
  bool pairs_, documents_, parts_, has_second_, packs_, spans_, words_;
  std::int32_t unknown_;  // token
  std::int32_t end_;      // token behind each text; -1: none
  std::vector<std::int32_t> first_, second_;
  std::vector<std::vector<std::int32_t>> negatives_;
};

}  // namespace bert_hpc::prep
