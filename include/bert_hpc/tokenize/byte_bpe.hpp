// Byte-level BPE, identical to Hugging Face's tokenizers on any bytes (Radford et al. 2019, "Language models are
// unsupervised multitask learners", section 2.2; Sennrich, Haddow, Birch 2016, arXiv:1508.07909): text is cut into
// words that begin with their blank, the bytes of a word are its first tokens, and the pair of neighbours that comes
// first in the list of merges becomes one token, again and again.
//
// Speed: one pass without allocation; words of at most 16 bytes that became at most 3 tokens are remembered.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/added_tokens.hpp"
#include "bert_hpc/tokenize/bpe_merges.hpp"
#include "bert_hpc/tokenize/byte_words.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/vocabulary_trainer.hpp"
#include "bert_hpc/tokenize/word_cache.hpp"

namespace bert_hpc::tokenize {

/// The entry of tokenizer_kinds().
const TokenizerKind& byte_bpe_kind();

/// The text of `bytes` in vocabularies: each byte is a printable character (a blank is "Ġ").
std::string printable_bytes(std::string_view bytes);
/// The bytes of such a text; false if it has another character. Appends to `bytes`.
bool append_bytes_of(std::string_view printable, std::string& bytes);

/// Appends printable_bytes(bytes).
void append_printable(std::string_view bytes, std::string& printable);
/// The texts of all bytes, in the order of their code points.
std::vector<std::string> printable_alphabet();

/// What encoders of a tokenizer share. Immutable.
struct ByteBpeModel {
  WordPattern pattern = WordPattern::gpt2;
  bool add_prefix_space = false;         ///< before each part of a text that does not begin with a blank
  bool trim_offsets = true;              ///< spans leave out the blanks of their tokens
  bool trimming_expects_prefix = false;  ///< the blank of a text's first token was added, so that its span stays
  std::array<std::int32_t, 256> byte_ids{};
  MergeTable merges;
  /// Words that are tokens whatever the merges are (model.ignore_merges); an empty trie if there are none.
  ByteTrie whole_words;
  bool has_whole_words = false;
  struct Blanks {
    std::int32_t leading = 0, trailing = 0;  ///< characters
  };
  std::vector<Blanks> blanks;       ///< (tokens)
  std::vector<std::int32_t> sizes;  ///< (tokens): bytes of text that a token stands for; 0 for added tokens
};

/// Blanks, and "Ġ", at the ends of a token as vocabularies have it.
ByteBpeModel::Blanks blanks_of(std::string_view text);

/// The model and the added tokens must outlive it.
class ByteBpeEncoder final : public TextEncoder {
 public:
  ByteBpeEncoder(const ByteBpeModel& model, const AddedTokens& added);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override;
  void encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids, std::vector<TokenSpan>& spans) override;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) override;

 private:
  static constexpr int cache_bits = 16;

  std::string_view valid(std::string_view text);
  /// `part` with the blank that is put before it, if one is.
  std::string_view prefixed(std::string_view part);
  void add_word(const char* bytes, std::size_t size, const char* end, std::vector<std::int32_t>& ids);
  void merge(const char* bytes, std::size_t size, std::vector<std::int32_t>& ids);
  void trim(const ByteBpeModel::Blanks& blanks, bool is_first, TokenSpan& span) const;

  const ByteBpeModel& model_;
  const AddedTokens& added_;
  NormalizedText unused_;
  std::string valid_, prefixed_, word_;
  BpeMerger merger_;
  WordCache<FewIds> cache_{cache_bits};
};

/// Trains as Hugging Face's BpeTrainer does with the alphabet of all bytes: pairs of neighbours are merged, the most
/// frequent first, until the vocabulary is full; of equally frequent pairs the one of older tokens.
class ByteBpeTrainer final : public VocabularyTrainer {
 public:
  ByteBpeTrainer(const TokenizerSettings& settings, bool ends_texts);

  void read(std::string_view text, WordNumbers& words, std::vector<std::int32_t>& numbers) override;
  /// The special tokens of RoBERTa, or of GPT-2 if texts are to end in a token, the 256 bytes, and merged tokens.
  TrainedVocabulary train(const std::vector<WordCounts::Entry>& words, std::int32_t size) const override;

 private:
  bool add_prefix_space_, ends_texts_;
  AddedTokens specials_;  // their ids are those of WordNumbers
  NormalizedText unused_;
  std::string valid_, prefixed_, printable_;
};

}  // namespace bert_hpc::tokenize
