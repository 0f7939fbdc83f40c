// BPE of characters whose blanks are "▁", identical to Hugging Face's tokenizers on any bytes, as Gemma, mmBERT and
// Llama 2 have it: the characters of a word are its first tokens, one that is no token becomes the tokens of its bytes
// or the unknown token, and neighbours are merged (Sennrich, Haddow, Birch 2016, arXiv:1508.07909; Kudo and Richardson
// 2018, arXiv:1808.06226, section 3.2). A whole text may be one word.
//
// Speed: no merge joins two symbols that are nowhere neighbours in a merge, so that words are cut between them, which
// changes no token: what is merged on one side depends on that side alone. Parts of at most 16 bytes that became at
// most 3 tokens are remembered.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/bpe_merges.hpp"
#include "bert_hpc/tokenize/byte_trie.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "bert_hpc/tokenize/word_cache.hpp"
#include "bert_hpc/tokenize/word_marks.hpp"

namespace bert_hpc::tokenize {

/// The entry of tokenizer_kinds().
const TokenizerKind& metaspace_bpe_kind();

/// Pairs of characters that stand side by side in a token of a merge. Answers true for a few others as well.
class NeighbourCharacters {
 public:
  NeighbourCharacters() : ascii_(128 * 128 / 64), others_((std::size_t{1} << bits) / 64) {}

  void insert(char32_t left, char32_t right);
  bool has(char32_t left, char32_t right) const {
    if (left < 128 && right < 128) return bit(ascii_, left << 7 | right);
    return bit(others_, hash(left, right));
  }

 private:
  static constexpr int bits = 22;
  using Bits = std::vector<std::uint64_t>;

  static bool bit(const Bits& set, std::size_t at) { return (set[at >> 6] >> (at & 63) & 1) != 0; }
  static std::size_t hash(char32_t left, char32_t right) {
    return ((static_cast<std::uint64_t>(left) << 21 | right) * std::uint64_t{0x9E3779B97F4A7C15}) >> (64 - bits);
  }

  Bits ascii_, others_;  // bit left × 128 + right; bit hash(left, right)
};

/// State that the encoders of a tokenizer share. Immutable.
struct MetaspaceBpeModel {
  WordMarks marks{};
  MergeTable merges;
  std::vector<std::int32_t> characters;      ///< ids of tokens of one character, by code point; −1: there is none
  std::int32_t unknown = -1;                 ///< −1: characters that no token has are left out
  bool fuses_unknown = false;                ///< neighbouring unknown characters are one token
  bool falls_back = false;                   ///< to tokens of bytes, if there are all that a character needs
  std::array<std::int32_t, 256> byte_ids{};  ///< −1: there is none
  bool can_cut = false;  ///< between characters that are no neighbours; unknown ones are no part of a merge
  NeighbourCharacters neighbours;
  /// Words that are tokens whatever the merges are (model.ignore_merges); an empty trie if there are none.
  ByteTrie whole_words;
  bool has_whole_words = false;

  std::int32_t id_of(char32_t point) const { return point < characters.size() ? characters[point] : -1; }
  /// Whether a token may hold parts of both characters, which are neighbours.
  bool may_join(char32_t left, char32_t right) const {
    return neighbours.has(left, right) || (fuses_unknown && id_of(left) < 0 && id_of(right) < 0);
  }
};

/// Sets characters, merges, can_cut and neighbours. `tokens` by id; unknown, byte_ids and falls_back are set before.
void set_merges(const std::vector<std::string>& tokens, const std::vector<MergeIds>& merges, MetaspaceBpeModel& model);

/// The model and the tokens must outlive it.
class MetaspaceBpeEncoder final : public TextEncoder {
 public:
  MetaspaceBpeEncoder(const MetaspaceBpeModel& model, const SearchedTokens& tokens);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) override;
  void encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids, std::vector<TokenSpan>& spans) override;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) override;

 private:
  std::int32_t whole_word(std::string_view word) const;
  template <class Take>
  void each_part(std::string_view word, const Take& take) const;
  void merge(std::string_view part, std::vector<std::int32_t>& ids, std::vector<std::int32_t>* starts);
  void set_symbols(std::string_view part);

  const MetaspaceBpeModel& model_;
  MarkedWords words_;
  BpeMerger merger_;
  std::vector<std::int32_t> sizes_;   // of the symbols, in bytes
  std::vector<std::int32_t> starts_;  // of the tokens of a part: indices of symbols
  WordCache<FewIds> cache_{16};
};

}  // namespace bert_hpc::tokenize
