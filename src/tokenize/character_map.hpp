// SentencePiece's normalization of characters (Kudo and Richardson 2018, arXiv:1808.06226, section 3.3), as Hugging
// Face's "Precompiled" applies it: grapheme clusters of less than 6 bytes, else single characters, become other text.
// The file is a double-array trie (Aoe 1989) behind its size, and the texts that its values point to. Internal to the
// module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/origin_text.hpp"

namespace bert_hpc::tokenize {

class CharacterMap {
 public:
  CharacterMap() = default;
  /// `binary` as a model has it. Sets `problem`, and changes no text, if it is damaged.
  CharacterMap(std::string_view binary, std::string& problem);

  /// Whether the text, well-formed UTF-8, is left as it is for certain.
  bool leaves(std::string_view text) const;
  /// Appends what becomes of `text`. `origins`: of its bytes; empty: they are not asked for.
  void apply(std::string_view text, const std::vector<TokenSpan>& origins, OriginText& mapped) const;

 private:
  struct Change;
  std::optional<std::string_view> replacement(std::string_view chunk) const;
  bool is_simple(char32_t point) const {
    return point < simple_.size() * 64 && (simple_[point >> 6] >> (point & 63) & 1) != 0;
  }

  std::vector<std::uint32_t> trie_;
  std::string texts_;                  // each with a zero byte behind it
  std::vector<std::uint64_t> simple_;  // bit c: character c stays and is a cluster beside others of this kind
};

std::string base64_text(std::string_view bytes);
/// The bytes of base64 text; nothing if it is none.
std::optional<std::string> base64_bytes(std::string_view text);

}  // namespace bert_hpc::tokenize
