// WordPiece tokenizer, identical to Transformers 5's BertTokenizer on any bytes (Wu et al. 2016, arXiv:1609.08144,
// section 4.1; Devlin et al. 2019): words are split as word_splitter.hpp says, and each is cut greedily into the
// longest pieces of the vocabulary, or is one [UNK].
//
// Speed: one pass without allocation; words of at most 16 bytes that became at most 3 pieces are remembered in a
// small direct-mapped cache, and text follows Zipf's law, so most words cost one probe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/added_tokens.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"
#include "bert_hpc/tokenize/word_cache.hpp"
#include "bert_hpc/tokenize/word_splitter.hpp"

namespace bert_hpc::tokenize {

/// The entry of tokenizer_kinds().
const TokenizerKind& wordpiece_kind();

/// Its switches as BERT's normalizer has them; absent ones are resolved.
TextForm form_of(const TokenizerSettings& settings);
TokenizerSettings settings_of(const TextForm& form);

/// The vocabulary and the added tokens must outlive it.
class WordPieceEncoder final : public TextEncoder {
 public:
  /// `added`: also the special tokens, which are searched for with the others; null: they alone.
  WordPieceEncoder(const Vocabulary& vocabulary, const TextForm& form, const AddedTokens* added = nullptr);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override;
  void encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids, std::vector<TokenSpan>& spans) override;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) override;

 private:
  static constexpr int cache_bits = 15;

  void add_word(const Word& word, std::vector<std::int32_t>& ids);
  void encode_beside_added(std::string_view text, std::vector<std::int32_t>& ids);
  void encode_beside_added(std::string_view text, std::vector<std::int32_t>& ids, std::vector<TokenSpan>& spans);
  void cut(const char* bytes, int size, std::vector<std::int32_t>& ids) const;
  void add_spans(const Word& word, std::int32_t begin, std::span<const std::int32_t> ids,
                 std::vector<TokenSpan>& spans) const;

  const Vocabulary& vocabulary_;
  const AddedTokens* added_;
  NormalizedText buffer_;
  WordSplitter splitter_;
  std::array<std::int32_t, special_roles.size()> special_ids_;
  WordCache<FewIds> cache_{cache_bits};
};

/// Trains as Hugging Face's WordPieceTrainer does: pairs of neighbouring pieces are merged, the most frequent first,
/// until the vocabulary is full (Sennrich, Haddow, Birch 2016, arXiv:1508.07909, with WordPiece's "##" for pieces
/// inside a word). Unlike there the result does not depend on the order of a hash table: characters are ordered by code
/// point, and of equally frequent pairs the one of older pieces is merged first.
class WordPieceTrainer final : public VocabularyTrainer {
 public:
  explicit WordPieceTrainer(const TextForm& form);

  void read(std::string_view text, WordNumbers& words, std::vector<std::int32_t>& numbers) override;
  /// The pieces: the special tokens, the (at most 1,000 most frequent) characters, and merged ones.
  TrainedVocabulary train(const std::vector<WordCounts::Entry>& words, std::int32_t size) const override;

 private:
  WordSplitter splitter_;
};

/// The text of a tokenizer.json, byte for byte as Transformers 5 saves the same tokenizer. A piece that the vocabulary
/// has twice is written once, with its last id. `added`: without special tokens.
std::string tokenizer_json_text(const Vocabulary& vocabulary, const TextForm& form,
                                const std::vector<AddedToken>& added = {});

}  // namespace bert_hpc::tokenize
