#include "bert_hpc/tokenize/word_marks.hpp"

#include <optional>
#include <utility>

#include "bert_hpc/tokenize/characters.hpp"
#include "character_map.hpp"
#include "character_steps.hpp"

namespace bert_hpc::tokenize {
namespace {

std::size_t blanks_at_begin(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t size = blank_size(text, end);
    if (size == 0) break;
    end += size;
  }
  return end;
}

std::size_t end_without_blanks(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_size(text, at);
    if (blank_size(text, at) == 0) end = at + size;
    at += size;
  }
  return end;
}

bool ends_in_blank(std::string_view text) {
  std::size_t last = text.size();
  while (last > 0 && (static_cast<unsigned char>(text[last - 1]) & 0xC0) == 0x80) --last;
  return last > 0 && blank_size(text, last - 1) > 0;
}

/// The step if it changes single characters.
std::optional<CharacterStep> character_step(TextStep::Kind kind) {
  switch (kind) {
    case TextStep::Kind::compose:
      return CharacterStep::compose;
    case TextStep::Kind::decompose:
      return CharacterStep::decompose;
    case TextStep::Kind::strip_accents:
      return CharacterStep::strip_accents;
    case TextStep::Kind::lowercase:
      return CharacterStep::lowercase;
    default:
      return std::nullopt;
  }
}

/// The next run of blanks that is longer than one, or one that is a line end or a tab; as next_match().
std::pair<std::size_t, std::size_t> next_blanks(std::string_view text, std::size_t from) {
  for (std::size_t begin = from; begin < text.size();) {
    const auto byte = static_cast<unsigned char>(text[begin]);
    if (byte > ' ' && byte < 0x80) {
      ++begin;
      continue;
    }
    const std::size_t size = blank_size(text, begin);
    std::size_t end = begin + size;
    for (std::size_t next = size; end < text.size() && next > 0; end += next) next = blank_size(text, end);
    if (byte == '\n' || byte == '\r' || byte == '\t' || end > begin + size) return {begin, end};
    begin += size > 0 ? size : character_size(text, begin);
  }
  return {text.size(), text.size()};
}

/// Bytes [begin, end) that a step replaces, the first from `from` on; begin = the text's size: none.
std::pair<std::size_t, std::size_t> next_match(const TextStep& step, std::string_view text, std::size_t from) {
  if (step.kind == TextStep::Kind::replace) {
    const std::size_t at = text.find(step.from, from);
    return at == std::string_view::npos ? std::pair(text.size(), text.size()) : std::pair(at, at + step.from.size());
  }
  if (step.kind == TextStep::Kind::merge_blanks) return next_blanks(text, from);
  const std::size_t at = text.find("  ", from);
  if (at == std::string_view::npos) return {text.size(), text.size()};
  return {at, std::min(text.find_first_not_of(' ', at), text.size())};
}

void keep(OriginText& text, std::size_t begin, std::size_t end) {
  text.bytes = text.bytes.substr(begin, end - begin);
  if (text.origins.empty()) return;
  text.origins = std::vector<TokenSpan>(text.origins.begin() + static_cast<std::ptrdiff_t>(begin),
                                        text.origins.begin() + static_cast<std::ptrdiff_t>(end));
}

void replace(const TextStep& step, const OriginText& text, OriginText& to) {
  to.clear();
  std::size_t done = 0;
  const auto copy = [&](std::size_t end) {
    to.bytes.append(text.bytes, done, end - done);
    if (text.origins.empty()) return;
    to.origins.insert(to.origins.end(), text.origins.begin() + static_cast<std::ptrdiff_t>(done),
                      text.origins.begin() + static_cast<std::ptrdiff_t>(end));
  };
  while (done < text.bytes.size()) {
    const auto [begin, end] = next_match(step, text.bytes, done);
    copy(begin);
    if (begin == text.bytes.size()) break;
    to.bytes += step.to;
    // The library adds the new characters behind the last one that it removes.
    if (!text.origins.empty()) to.origins.insert(to.origins.end(), step.to.size(), text.origins[end - 1]);
    done = end;
  }
}

/// New characters lie on the first one.
void prepend(const std::string& added, OriginText& text) {
  if (text.bytes.empty()) return;
  text.bytes.insert(0, added);
  if (!text.origins.empty()) text.origins.insert(text.origins.begin(), added.size(), TokenSpan(text.origins.front()));
}

/// Makes `text` what the steps make of it. `buffer`: for what lies between two steps.
void apply_steps(const WordMarks& marks, std::unique_ptr<OriginText>& text, std::unique_ptr<OriginText>& buffer) {
  for (const TextStep& step : marks.steps) {
    if (const std::optional<CharacterStep> characters = character_step(step.kind)) {
      if (leaves(*characters, text->bytes)) continue;
      buffer->clear();
      apply(*characters, *text, *buffer);
      std::swap(text, buffer);
      continue;
    }
    switch (step.kind) {
      case TextStep::Kind::map:
        buffer->clear();
        marks.map->apply(text->bytes, text->origins, *buffer);
        std::swap(text, buffer);
        break;
      case TextStep::Kind::strip: {
        const std::size_t begin = step.left ? blanks_at_begin(text->bytes) : 0;
        const std::size_t end = step.right ? end_without_blanks(text->bytes) : text->bytes.size();
        keep(*text, begin, std::max(begin, end));
        break;
      }
      case TextStep::Kind::prepend:
        prepend(step.to, *text);
        break;
      default:
        replace(step, *text, *buffer);
        std::swap(text, buffer);
    }
  }
}

/// The tokens that are `normalized`, or the others; of those, what the steps make of their texts.
std::vector<AddedToken> tokens_that(bool are_normalized, const std::vector<AddedToken>& tokens,
                                    const WordMarks& marks) {
  std::vector<AddedToken> found;
  for (AddedToken token : tokens) {
    if (token.normalized != are_normalized) continue;
    if (are_normalized) token.content = normalized_text(marks, token.content);
    if (!token.content.empty()) found.push_back(std::move(token));
  }
  return found;
}

}  // namespace

std::string normalized_text(const WordMarks& marks, std::string_view text) {
  auto normal = std::make_unique<OriginText>(), buffer = std::make_unique<OriginText>();
  normal->bytes = text;
  apply_steps(marks, normal, buffer);
  return std::move(normal->bytes);
}

SearchedTokens::SearchedTokens(const std::vector<AddedToken>& tokens, const WordMarks& marks)
    : as_they_are(tokens_that(false, tokens, marks), std::nullopt),
      normalized(tokens_that(true, tokens, marks), std::nullopt) {}

MarkedWords::MarkedWords(const WordMarks& marks, const SearchedTokens& tokens)
    : marks_(marks), tokens_(tokens), normal_(std::make_unique<OriginText>()), other_(std::make_unique<OriginText>()) {}

MarkedWords::~MarkedWords() = default;

/// The text itself, or a copy with U+FFFD for what is malformed.
std::string_view MarkedWords::valid(std::string_view text) {
  if (is_valid_utf8(text)) return text;
  valid_ = valid_utf8(text);
  return valid_;
}

/// Whether a step may change the text.
bool MarkedWords::changes(std::string_view text) const {
  for (const TextStep& step : marks_.steps) {
    if (const std::optional<CharacterStep> characters = character_step(step.kind)) {
      if (!leaves(*characters, text)) return true;
      continue;
    }
    switch (step.kind) {
      case TextStep::Kind::map:
        if (!marks_.map->leaves(text)) return true;
        break;
      case TextStep::Kind::strip:
        if ((step.left && blanks_at_begin(text) > 0) || (step.right && ends_in_blank(text))) return true;
        break;
      case TextStep::Kind::prepend:
        return true;
      default:
        if (next_match(step, text, 0).first != text.size()) return true;
    }
  }
  return false;
}

bool MarkedWords::is_punctuation(std::string_view text, std::size_t at) {
  const auto* begin = reinterpret_cast<const unsigned char*>(text.data()) + at;
  const char32_t point = decode_utf8(begin, begin + (text.size() - at));
  return (character_table().flags(point) & character_flag::punctuation) != 0;
}

/// Makes normal_ of the text.
void MarkedWords::normalize(std::string_view text, bool with_origins) {
  normal_->clear();
  normal_->bytes = text;
  if (with_origins) {
    std::int32_t character = 0;
    for (std::size_t at = 0; at < text.size(); ++character) {
      const std::size_t size = character_size(text, at);
      normal_->origins.insert(normal_->origins.end(), size, {character, character + 1});
      at += size;
    }
  }
  apply_steps(marks_, normal_, other_);
}

std::string_view MarkedWords::word(std::string_view normal, const Piece& piece) {
  const std::string_view body = normal.substr(piece.begin, piece.end - piece.begin);
  const std::vector<TokenSpan>& origins = normal_->origins;
  const bool replaces = marks_.has_metaspace && !marks_.splits_marks && body.find(' ') != std::string_view::npos;
  // A mark that the text has stands right before the body.
  const std::size_t begin = piece.mark >= 0 ? static_cast<std::size_t>(piece.mark) : piece.begin;
  if (!replaces && (!piece.has_mark || normal.substr(begin, piece.begin - begin) == word_mark)) {
    word_origins_ = origins.empty() ? nullptr : origins.data() + begin;
    return normal.substr(begin, piece.end - begin);
  }
  word_.clear();
  if (piece.has_mark) word_ = word_mark;
  if (replaces) {
    for (const char c : body) c == ' ' ? word_ += word_mark : word_ += c;
  } else {
    word_ += body;
  }
  if (origins.empty()) return word_;
  copied_origins_.clear();
  // A mark that was added lies on the first character.
  if (piece.has_mark) copied_origins_.insert(copied_origins_.end(), word_mark.size(), origins[begin]);
  for (std::size_t at = piece.begin; at < piece.end; ++at) {
    copied_origins_.insert(copied_origins_.end(), replaces && normal[at] == ' ' ? word_mark.size() : 1, origins[at]);
  }
  word_origins_ = copied_origins_.data();
  return word_;
}

}  // namespace bert_hpc::tokenize
