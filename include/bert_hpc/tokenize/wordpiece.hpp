// WordPiece tokenizer, identical to Transformers 5's BertTokenizer on any bytes (Wu et al. 2016, arXiv:1609.08144,
// section 4.1; Devlin et al. 2019): words are split as word_splitter.hpp tells, and each is cut greedily into the
// longest pieces of the vocabulary, or is one [UNK].
//
// Speed: one pass without allocation; words of at most 16 bytes that became at most 3 pieces are remembered in a
// small direct-mapped cache, and text follows Zipf's law, so most words cost one probe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/vocabulary.hpp"
#include "bert_hpc/tokenize/word_splitter.hpp"

namespace bert_hpc::tokenize {

/// One per thread (it has a cache); the vocabulary must outlive it.
class WordPieceEncoder {
 public:
  WordPieceEncoder(const Vocabulary& vocabulary, const TextForm& form);

  /// Appends the ids of `text` to `ids`, without [CLS] and [SEP]. `text` is UTF-8; malformed parts are read as U+FFFD,
  /// which BERT drops. Special tokens spelled out in the text become their ids, as in Transformers.
  void encode(std::string_view text, std::vector<std::int32_t>& ids);

 private:
  struct CacheEntry {
    std::uint64_t key[2] = {0, 0};  // the word's bytes, zero-filled
    std::int32_t count = 0;
    std::int32_t ids[3] = {0, 0, 0};
  };
  static constexpr int cache_bits = 13;

  void encode_word(const Word& word, std::vector<std::int32_t>& ids);
  void cut(const Word& word, std::vector<std::int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  WordSplitter splitter_;
  std::array<std::int32_t, 5> special_ids_;
  std::vector<CacheEntry> cache_;
};

}  // namespace bert_hpc::tokenize
