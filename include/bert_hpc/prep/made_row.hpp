// What SequenceMaker makes of the texts of a row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

/// Tokens [begin, end) of a text.
struct Window {
  std::int64_t begin, end;
  bool operator==(const Window&) const = default;
};
/// The sequences of a row.
struct MadeRow {
  struct Sequence {
    std::size_t end;            ///< in ids; it begins where the one before ends
    std::int64_t first;         ///< tokens of type 0, which come first
    std::int64_t document = 0;  ///< index in the sequence at which the window begins
    Window window{0, 0};        ///< of the text that is cut into windows
  };
  std::vector<std::int32_t> ids;
  std::vector<Sequence> sequences;
  std::vector<tokenize::TokenSpan> spans;  ///< of tasks with answers: of each token of the text in windows
  // For texts in words (prep/word_rows.hpp):
  std::vector<std::int32_t> word_ends;    ///< (words): tokens of the text up to the end of each
  std::vector<std::int32_t> word_window;  ///< (words): the sequence that each belongs to
  std::vector<std::int32_t> empty_words;  ///< ascending: those without characters, for which an unknown token stands
  bool truncated = false;

  void clear() {
    ids.clear();
    sequences.clear();
    spans.clear();
    word_ends.clear();
    empty_words.clear();
    truncated = false;
  }
  std::span<const std::int32_t> ids_of(std::size_t sequence) const {
    const std::size_t begin = sequence == 0 ? 0 : sequences[sequence - 1].end;
    return std::span(ids).subspan(begin, sequences[sequence].end - begin);
  }
};

}  // namespace bert_hpc::prep
