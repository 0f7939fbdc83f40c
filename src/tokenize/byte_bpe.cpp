// Words through the cache, and the merges of those not in it.
#include "bert_hpc/tokenize/byte_bpe.hpp"

#include <algorithm>
#include <cstring>

#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {
namespace {

/// Code points of the bytes in vocabularies: printable characters stand for themselves, others for those from U+0100.
struct PrintableBytes {
  std::array<char32_t, 256> points{};
  std::array<std::int16_t, 324> bytes{};  // by code point; -1: of no byte

  PrintableBytes() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool stays = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      const char32_t point = stays ? static_cast<char32_t>(byte) : next++;
      points[static_cast<std::size_t>(byte)] = point;
      bytes[point] = static_cast<std::int16_t>(byte);
    }
  }
};

const PrintableBytes& printable_table() {
  static const PrintableBytes table;
  return table;
}

/// Characters of UTF-8 that begin in `bytes`.
std::int32_t beginnings(const char* bytes, const char* end) {
  std::int32_t count = 0;
  for (; bytes != end; ++bytes) count += (static_cast<unsigned char>(*bytes) & 0xC0) != 0x80;
  return count;
}

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Position of parts among the characters of the text, each part from its begin to its end.
class PartPosition {
 public:
  void enter(const TextPart& part) {
    if (part.stretch.data() == stretch_.data()) return;
    read_ += beginnings(stretch_.data(), stretch_.data() + stretch_.size());
    stretch_ = part.stretch;
    read_of_stretch_ = 0;
  }
  /// What was entered has so many characters, with its spans.
  void leave(const TextPart& part, std::int32_t characters) {
    (part.normalized == nullptr ? read_ : read_of_stretch_) += characters;
  }
  /// `span`: of the part's characters.
  TokenSpan in_text(const TextPart& part, TokenSpan span) const {
    if (part.normalized == nullptr) return {read_ + span.begin, read_ + span.end};
    const std::int32_t* const origins = part.normalized->origins.data();
    const std::int32_t begin = read_of_stretch_ + span.begin, end = read_of_stretch_ + span.end;
    const std::int32_t behind = read_ + (end > 0 ? origins[end - 1] + 1 : 0);
    return {begin < end ? read_ + origins[begin] : behind, behind};
  }

 private:
  std::string_view stretch_;                     // the normalized one that is read; empty: none
  std::int32_t read_ = 0, read_of_stretch_ = 0;  // characters before it, or before the part; those of it
};

}  // namespace

void append_printable(std::string_view bytes, std::string& printable) {
  for (const char byte : bytes) {
    char text[4];
    const char32_t point = printable_table().points[static_cast<unsigned char>(byte)];
    printable.append(text, static_cast<std::size_t>(encode_utf8(point, text) - text));
  }
}

std::string printable_bytes(std::string_view bytes) {
  std::string printable;
  append_printable(bytes, printable);
  return printable;
}

std::vector<std::string> printable_alphabet() {
  std::vector<std::string> alphabet;
  for (const std::int16_t byte : printable_table().bytes) {
    const char own = static_cast<char>(byte);
    if (byte >= 0) alphabet.push_back(printable_bytes({&own, 1}));
  }
  return alphabet;
}

bool append_bytes_of(std::string_view printable, std::string& bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(printable.data());
  const auto* const end = at + printable.size();
  const auto& table = printable_table().bytes;
  while (at != end) {
    const char32_t point = decode_utf8(at, end);
    if (point >= table.size() || table[point] < 0) return false;
    bytes += static_cast<char>(table[point]);
  }
  return true;
}

ByteBpeModel::Blanks blanks_of(std::string_view text) {
  constexpr char32_t printable_blank = 0x120;  // "Ġ"
  ByteBpeModel::Blanks blanks;
  bool is_leading = true;
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    const char32_t point = decode_utf8(at, end);
    const bool is_blank = point == printable_blank || character_classes()[point] == CharacterClass::blank;
    is_leading = is_leading && is_blank;
    blanks.leading += is_leading ? 1 : 0;
    blanks.trailing = is_blank ? blanks.trailing + 1 : 0;
  }
  return blanks;
}

ByteBpeEncoder::ByteBpeEncoder(const ByteBpeModel& model, const AddedTokens& added)
    : model_(model), added_(added), merger_(model.merges) {}

/// The text itself, or a copy with U+FFFD for what is malformed.
std::string_view ByteBpeEncoder::valid(std::string_view text) {
  if (is_valid_utf8(text)) return text;
  valid_ = valid_utf8(text);
  return valid_;
}

std::string_view ByteBpeEncoder::prefixed(std::string_view part) {
  if (!model_.add_prefix_space || part.front() == ' ') return part;
  prefixed_.assign(1, ' ').append(part);
  return prefixed_;
}

void ByteBpeEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  const ByteWords words(model_.pattern);
  const auto on_text = [&](const TextPart& part) {
    const std::string_view own = prefixed(part.text);
    const char* const end = own.data() + own.size();
    words.split(own, [&](std::string_view word) { add_word(word.data(), word.size(), end, ids); });
  };
  added_.split(valid(text), unused_, on_text, [&](std::int32_t id, const TextPart&) { ids.push_back(id); });
}

void ByteBpeEncoder::encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids,
                                       std::vector<TokenSpan>& spans) {
  const ByteWords words(model_.pattern);
  const std::size_t first = spans.size();
  PartPosition position;
  const auto add_span = [&](const ByteBpeModel::Blanks& blanks, TokenSpan span) {
    if (model_.trim_offsets) trim(blanks, spans.size() == first, span);
    spans.push_back(span);
  };
  const auto on_text = [&](const TextPart& part) {
    const std::string_view own = prefixed(part.text);
    const std::int32_t added = own.size() == part.text.size() ? 0 : 1;
    std::int32_t before = 0;  // characters of `own` that begin before the token
    position.enter(part);
    const char* const end = own.data() + own.size();
    words.split(own, [&](std::string_view word) {
      const std::size_t known = ids.size();
      add_word(word.data(), word.size(), end, ids);
      const char* at = word.data();
      for (std::size_t i = known; i < ids.size(); ++i) {
        const char* const behind = at + model_.sizes[static_cast<std::size_t>(ids[i])];
        TokenSpan span{before - (continues(*at) ? 1 : 0), before + beginnings(at, behind)};
        before = span.end;
        // The blank that was added lies on the part's first character.
        span = {std::max(span.begin - added, 0), std::max(span.end - added, 1)};
        add_span(model_.blanks[static_cast<std::size_t>(ids[i])], position.in_text(part, span));
        at = behind;
      }
    });
    position.leave(part, before - added);
  };
  const auto on_token = [&](std::int32_t id, const TextPart& part) {
    const std::int32_t size = beginnings(part.text.data(), part.text.data() + part.text.size());
    position.enter(part);
    ids.push_back(id);
    add_span(model_.trim_offsets ? blanks_of(part.text) : ByteBpeModel::Blanks(), position.in_text(part, {0, size}));
    position.leave(part, size);
  };
  added_.split(valid(text), unused_, on_text, on_token);
}

/// As the library does, including what it does to tokens that begin at character 0.
void ByteBpeEncoder::trim(const ByteBpeModel::Blanks& blanks, bool is_first, TokenSpan& span) const {
  const auto [all_leading, trailing] = blanks;
  const bool was_added = (is_first || span.begin == 0) && model_.trimming_expects_prefix && all_leading == 1;
  if (const std::int32_t leading = was_added ? 0 : all_leading; leading > 0) {
    span.begin = std::min(span.begin + leading, span.end);
  }
  if (trailing > 0 && span.end >= trailing) span.end = std::max(span.end - trailing, span.begin);
}

void ByteBpeEncoder::encode_word(std::string_view word, std::vector<std::int32_t>& ids) {
  word_.clear();
  append_bytes_of(word, word_);
  add_word(word_.data(), word_.size(), word_.data() + word_.size(), ids);
}

/// `end`: of the memory that may be read.
void ByteBpeEncoder::add_word(const char* bytes, std::size_t size, const char* end, std::vector<std::int32_t>& ids) {
  if (model_.has_whole_words && std::memchr(bytes, 0, size) == nullptr) {
    const ByteTrie::Match match = model_.whole_words.longest(0, bytes, static_cast<int>(size));
    if (match.id >= 0 && static_cast<std::size_t>(match.size) == size) return ids.push_back(match.id);
  }
  if (size > ShortWord::longest) return merge(bytes, size, ids);
  const ShortWord key = ShortWord::read(bytes, size, end);
  // A word may end with zero bytes, which the key does not tell from none.
  if (bytes[size - 1] == '\0' || key.is_none()) return merge(bytes, size, ids);
  append_cached(cache_, key, ids, [&](std::vector<std::int32_t>& to) { merge(bytes, size, to); });
}

void ByteBpeEncoder::merge(const char* bytes, std::size_t size, std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t>& symbols = merger_.symbols();
  symbols.resize(size);
  for (std::size_t i = 0; i < size; ++i) symbols[i] = model_.byte_ids[static_cast<unsigned char>(bytes[i])];
  merger_.merge(ids);
}

}  // namespace bert_hpc::tokenize
