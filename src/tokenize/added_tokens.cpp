// The search takes one test of two bytes for each byte of text that begins no token.
#include "bert_hpc/tokenize/added_tokens.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {
namespace flag = character_flag;
namespace {

std::string quoted_token(const std::string& text) {
  return '"' + core::printable(text, 80) + '"';
}

/// Unicode's White_Space.
bool is_blank(char32_t point) {
  return (point >= 0x9 && point <= 0xD) || point == ' ' || point == 0x85 || point == 0xA0 || point == 0x1680 ||
         (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 || point == 0x202F ||
         point == 0x205F || point == 0x3000;
}

/// A character of words in regular expressions (Unicode Technical Standard 18, Annex C).
bool is_word_character(char32_t point) {
  if (point < 0x80) {
    return (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z') || (point >= '0' && point <= '9') ||
           point == '_';
  }
  if (point == 0x200C || point == 0x200D) return true;  // joiners
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_SO:  // letters in circles and squares
      return (point >= 0x24B6 && point <= 0x24E9) || (point >= 0x1F130 && point <= 0x1F149) ||
             (point >= 0x1F150 && point <= 0x1F169) || (point >= 0x1F170 && point <= 0x1F189);
    default:
      return false;
  }
}

/// The beginning of the last character of text[0 … end), which is not empty.
std::size_t last_character(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

/// Decodes the character at `at` and moves behind it.
char32_t character_at(std::string_view text, std::size_t& at) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* next = begin + at;
  const char32_t point = decode_utf8(next, begin + text.size());
  at = static_cast<std::size_t>(next - begin);
  return point;
}

}  // namespace

std::vector<std::string> hashed_lines(const std::vector<AddedToken>& tokens) {
  std::vector<std::string> lines;
  for (const AddedToken& token : tokens) {
    lines.push_back(token.content + '\t' + std::to_string(token.id) + (token.normalized ? " normalized" : "") +
                    (token.single_word ? " single_word" : ""));
  }
  return lines;
}

std::vector<std::string> settle_added_tokens(const std::vector<std::string>& pieces, std::vector<AddedToken>& tokens,
                                             std::span<const char* const> implied) {
  std::vector<std::string> problems;
  std::unordered_set<std::string> seen;
  std::erase_if(tokens, [&](const AddedToken& token) {
    return token.content.empty() || std::find(implied.begin(), implied.end(), token.content) != implied.end() ||
           !seen.insert(token.content).second;
  });
  if (tokens.empty()) return problems;
  // Tokens without an id come last.
  std::stable_sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) {
    return static_cast<std::uint32_t>(a.id) < static_cast<std::uint32_t>(b.id);
  });
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (std::size_t id = 0; id < pieces.size(); ++id) ids[pieces[id]] = static_cast<std::int32_t>(id);
  auto next = static_cast<std::int32_t>(pieces.size());
  for (AddedToken& token : tokens) {
    if (!is_valid_utf8(token.content) || token.content.find('\0') != std::string::npos) {
      problems.push_back("the added token " + quoted_token(token.content) + " is not UTF-8 text.");
    }
    const auto piece = ids.find(token.content);
    const std::int32_t expected = piece != ids.end() ? piece->second : next++;
    if (token.id < 0) token.id = expected;
    if (token.id == expected) continue;
    problems.push_back("the added token " + quoted_token(token.content) + " has the id " + std::to_string(token.id) +
                       ", but " +
                       (piece != ids.end() ? "as a piece of the vocabulary it has " + std::to_string(expected)
                                           : "the first free one is " + std::to_string(expected)) +
                       ": versions of Transformers differ on such tokens.");
    if (piece == ids.end()) next = std::max(next, token.id + 1);
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return problems;
}

void normalize(std::string_view text, const TextForm& form, NormalizedText& normalized) {
  const CharacterTable& table = character_table();
  const bool strips = form.lowercase && form.strip_accents;
  normalized.bytes.clear();
  normalized.origins.clear();
  std::int32_t number = 0;
  const auto add = [&](char32_t point) {
    char bytes[4];
    normalized.bytes.append(bytes, static_cast<std::size_t>(encode_utf8(point, bytes) - bytes));
    normalized.origins.push_back(number);
  };
  char32_t scratch[4];
  for (std::size_t at = 0; at < text.size(); ++number) {
    const char32_t point = character_at(text, at);
    const std::uint8_t flags = table.flags(point);
    if (flags & flag::removed) continue;
    const bool alone = form.tokenize_chinese_chars && flags & flag::cjk;
    if (alone) add(' ');
    if (flags & flag::space) {
      add(' ');
    } else if (strips && flags & (flag::mark | flag::barrier)) {
      continue;
    } else if (strips && flags & flag::mapped) {
      for (const char32_t own : table.uncased_form(point, scratch)) add(own);
    } else if (form.lowercase && !strips) {
      for (const char32_t own : table.lower_form(point, scratch)) add(own);
    } else {
      add(point);
    }
    if (alone) add(' ');
  }
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::optional<TextForm>& form, bool composes)
    : form_(form), composes_(composes) {
  std::vector<AddedToken> raw, changed;
  std::vector<std::string> contents, changed_contents;
  NormalizedText buffer;
  for (AddedToken& token : tokens) {
    if (token.normalized) {
      if (form) normalize(token.content, *form, buffer);
      if (composes) compose(token.content, buffer);
      const std::string& content = form || composes ? buffer.bytes : token.content;
      if (content.empty()) continue;  // is nowhere in normalized text
      changed_contents.push_back(content);
      changed.push_back(std::move(token));
    } else {
      contents.push_back(token.content);
      raw.push_back(std::move(token));
    }
  }
  as_it_is_ = searched(std::move(raw), contents);
  normalized_ = searched(std::move(changed), changed_contents);
}

AddedTokens::Searched AddedTokens::searched(std::vector<AddedToken> tokens, const std::vector<std::string>& contents) {
  std::size_t bytes = 0;
  for (const std::string& content : contents) bytes += content.size();
  if (bytes + 1 >= ByteTrie::largest) {
    throw core::Error(core::ExitCode::data, "the vocabulary has more than 16 million bytes of added tokens.");
  }
  Searched all{.tokens = std::move(tokens), .trie = ByteTrie(bytes)};
  for (std::size_t i = all.tokens.size(); i-- > 0;) {  // of two with one content the first counts
    const std::string& content = contents[i];
    all.trie.insert(0, content, static_cast<std::int32_t>(i));
    const auto first = static_cast<unsigned char>(content[0]);
    const bool is_short = content.size() == 1;
    for (unsigned second = 0; second < 256; ++second) {
      if (!is_short && second != static_cast<unsigned char>(content[1])) continue;
      const unsigned pair = static_cast<unsigned>(first) << 8 | second;
      all.pairs[pair >> 6] |= std::uint64_t{1} << (pair & 63);
    }
  }
  return all;
}

AddedTokens::Found AddedTokens::find(const Searched& tokens, std::string_view text, std::size_t from) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  const std::size_t size = text.size();
  for (std::size_t at = from; at < size; ++at) {
    if (!tokens.may_begin(bytes[at], at + 1 < size ? bytes[at + 1] : 0)) continue;
    constexpr std::size_t longest = std::size_t{1} << 30;
    const ByteTrie::Match match =
        tokens.trie.longest(0, text.data() + at, static_cast<int>(std::min(size - at, longest)));
    if (match.id < 0) continue;
    return {at, at + static_cast<std::size_t>(match.size), &tokens.tokens[static_cast<std::size_t>(match.id)]};
  }
  return {size, size, nullptr};
}

bool AddedTokens::stands_alone(const Found& found, std::string_view text) {
  if (!found.token->single_word) return true;
  if (found.begin > 0) {
    std::size_t before = last_character(text, found.begin);
    if (is_word_character(character_at(text, before))) return false;
  }
  std::size_t after = found.end;
  return after == text.size() || !is_word_character(character_at(text, after));
}

std::size_t AddedTokens::blanks_before(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t begin = last_character(text, end);
    std::size_t at = begin;
    if (!is_blank(character_at(text, at))) break;
    end = begin;
  }
  return end;
}

std::size_t AddedTokens::blanks_after(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t next = begin;
    if (!is_blank(character_at(text, next))) break;
    begin = next;
  }
  return begin;
}

}  // namespace bert_hpc::tokenize
