#include "character_map.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {
namespace {

constexpr std::size_t first_plane = 0x10000, longest_cluster = 6;
constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// A unit of the trie, as darts-clone packs it.
constexpr bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
constexpr std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
constexpr std::uint32_t label_of(std::uint32_t unit) {
  return unit & 0x800000FF;
}
constexpr std::uint32_t offset_of(std::uint32_t unit) {
  return unit >> 10 << ((unit & 0x200) >> 6);
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

bool is_lone(char32_t point) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(point))->boundclass == UTF8PROC_BOUNDCLASS_OTHER;
}

/// Bytes of the grapheme cluster that `text` begins with.
std::size_t cluster_size(std::string_view text) {
  const unsigned char *at = bytes_of(text), *const end = at + text.size();
  auto before = static_cast<utf8proc_int32_t>(decode_utf8(at, end));
  utf8proc_int32_t state = 0;
  while (at != end) {
    const unsigned char* next = at;
    const auto point = static_cast<utf8proc_int32_t>(decode_utf8(next, end));
    if (utf8proc_grapheme_break_stateful(before, point, &state)) break;
    before = point;
    at = next;
  }
  return static_cast<std::size_t>(at - bytes_of(text));
}

}  // namespace

CharacterMap::CharacterMap(std::string_view binary, std::string& problem) {
  if (binary.empty()) return;
  std::uint32_t trie_bytes = 0;
  if (binary.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, binary.data(), sizeof trie_bytes);
  const std::size_t begin = sizeof trie_bytes, units = trie_bytes / sizeof(std::uint32_t);
  if (units == 0 || trie_bytes % sizeof(std::uint32_t) != 0 || binary.size() - begin < trie_bytes) {
    problem = "its precompiled_charsmap is damaged.";
    return;
  }
  trie_.resize(units);
  std::memcpy(trie_.data(), binary.data() + begin, trie_bytes);
  texts_.assign(binary.substr(begin + trie_bytes));
  simple_.resize(first_plane / 64);
  for (char32_t point = 0; point < first_plane; ++point) {
    char text[4];
    if (point >= 0xD800 && point < 0xE000) continue;  // surrogates are no characters
    const char* const end = encode_utf8(point, text);
    const bool stays = is_lone(point) && !replacement({text, static_cast<std::size_t>(end - text)});
    if (stays) simple_[point >> 6] |= std::uint64_t{1} << (point & 63);
  }
}

/// The value of the shortest key that `chunk` begins with, as the library takes it.
std::optional<std::string_view> CharacterMap::replacement(std::string_view chunk) const {
  std::uint32_t at = 0;
  at ^= offset_of(trie_[at]);
  for (const char c : chunk) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    at ^= byte;
    if (at >= trie_.size()) return std::nullopt;
    const std::uint32_t unit = trie_[at];
    if (label_of(unit) != byte) return std::nullopt;
    at ^= offset_of(unit);
    if (at >= trie_.size()) return std::nullopt;
    if (!has_leaf(unit)) continue;
    const std::size_t begin = value_of(trie_[at]);
    if (begin > texts_.size()) return std::nullopt;
    return std::string_view(texts_).substr(begin, std::min(texts_.find('\0', begin), texts_.size()) - begin);
  }
  return std::nullopt;
}

bool CharacterMap::leaves(std::string_view text) const {
  if (trie_.empty()) return true;
  const unsigned char *at = bytes_of(text), *const end = at + text.size();
  while (at != end) {
    if (!is_simple(decode_utf8(at, end))) return false;
  }
  return true;
}

/// Writes changed text, and how its characters came about as the library counts it: of each, the characters of the
/// text that it takes beyond its own if negative; positive: it was added, and takes none.
struct CharacterMap::Change {
  struct Written {
    std::size_t size;
    std::int64_t change;
  };
  std::string& bytes;
  bool counts;
  std::vector<Written> written{};

  void write(std::string_view character, std::int64_t change) {
    bytes += character;
    if (counts) written.push_back({character.size(), change});
  }
  /// `old` became `replaced`.
  void replace(std::string_view old, std::string_view replaced) {
    if (!counts) {
      bytes += replaced;
      return;
    }
    const std::int64_t before = count_characters(old), after = count_characters(replaced);
    std::int64_t number = 0;
    for (std::size_t at = 0; at < replaced.size();) {
      const std::size_t size = character_size(replaced, at);
      write(replaced.substr(at, size), number++ >= before ? 1 : 0);
      at += size;
    }
    // Removed characters count with the last one that stays, and are forgotten at the text's begin.
    if (after < before && !written.empty()) written.back().change += after - before;
  }
  /// Adds the origins of the written characters. `origins`: those of the bytes of `text`.
  void add_origins(std::string_view text, const std::vector<TokenSpan>& origins, std::vector<TokenSpan>& to) const {
    std::size_t offset = 0;  // of the next character of the text
    for (const Written& one : written) {
      const bool takes = one.change <= 0;
      const TokenSpan origin = takes && offset < origins.size() ? origins[offset]
                               : offset > 0                     ? origins[offset - 1]
                                                                : TokenSpan();
      to.insert(to.end(), one.size, origin);
      for (std::int64_t left = takes ? 1 - one.change : 0; left > 0 && offset < text.size(); --left) {
        offset += character_size(text, offset);
      }
    }
  }
};

void CharacterMap::apply(std::string_view text, const std::vector<TokenSpan>& origins, OriginText& mapped) const {
  Change change{.bytes = mapped.bytes, .counts = !origins.empty()};
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t size = character_size(text, at);
    const auto point_at = [&](std::size_t offset) {
      const unsigned char* bytes = bytes_of(text) + offset;
      return decode_utf8(bytes, bytes_of(text) + text.size());
    };
    const std::size_t next = at + size;
    if (is_simple(point_at(at)) && (next == text.size() || is_simple(point_at(next)))) {
      change.write(text.substr(at, size), 0);
      at = next;
      continue;
    }
    const std::string_view cluster = text.substr(at, cluster_size(text.substr(at)));
    at += cluster.size();
    if (cluster.size() < longest_cluster) {
      if (const auto replaced = replacement(cluster)) {
        change.replace(cluster, *replaced);
        continue;
      }
    }
    for (std::size_t i = 0; i < cluster.size();) {
      const std::string_view character = cluster.substr(i, character_size(cluster, i));
      i += character.size();
      if (const auto replaced = replacement(character)) {
        change.replace(character, *replaced);
      } else {
        change.write(character, 0);
      }
    }
  }
  if (change.counts) change.add_origins(text, origins, mapped.origins);
}

std::string base64_text(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = at; i < at + 3; ++i) bits = bits << 8 | (i < bytes.size() ? bytes_of(bytes)[i] : 0u);
    const std::size_t digits = std::min<std::size_t>(bytes.size() - at, 3) + 1;
    for (std::size_t i = 0; i < 4; ++i) text += i < digits ? base64_digits[bits >> (18 - 6 * i) & 0x3F] : '=';
  }
  return text;
}

std::optional<std::string> base64_bytes(std::string_view text) {
  static const std::array<std::int8_t, 256> values = [] {
    std::array<std::int8_t, 256> table{};
    table.fill(-1);
    for (std::size_t i = 0; i < base64_digits.size(); ++i) {
      table[static_cast<unsigned char>(base64_digits[i])] = static_cast<std::int8_t>(i);
    }
    return table;
  }();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::int8_t value = values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

}  // namespace bert_hpc::tokenize
