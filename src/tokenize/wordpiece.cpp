// Words through the cache, and the greedy cut for those not in it.
#include "bert_hpc/tokenize/wordpiece.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "bert_hpc/tokenize/byte_bpe.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {

namespace {

/// Texts that the splitter looks for.
std::vector<std::string> split_specials(const Vocabulary& vocabulary, const AddedTokens* added) {
  if (added != nullptr) return {};
  return {vocabulary.layout().tokens.begin(), vocabulary.layout().tokens.end()};
}

}  // namespace

WordPieceEncoder::WordPieceEncoder(const Vocabulary& vocabulary, const TextForm& form, const AddedTokens* added)
    : vocabulary_(vocabulary), added_(added), splitter_(form, split_specials(vocabulary, added)) {
  for (std::size_t i = 0; i < special_roles.size(); ++i) special_ids_[i] = vocabulary.special().*special_roles[i].id;
}

void WordPieceEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  if (added_ != nullptr) return encode_beside_added(text, ids);
  splitter_.split(
      text, [&](const Word& word) { add_word(word, ids); },
      [&](int special, const unsigned char*) { ids.push_back(special_ids_[static_cast<std::size_t>(special)]); });
}

void WordPieceEncoder::encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids,
                                         std::vector<TokenSpan>& spans) {
  if (added_ != nullptr) return encode_beside_added(text, ids, spans);
  const char* counted = text.data();  // the text before it has `characters`
  std::int32_t characters = 0;
  const auto character_at = [&](const unsigned char* position) {
    const auto* const end = reinterpret_cast<const char*>(position);
    characters += static_cast<std::int32_t>(count_characters({counted, static_cast<std::size_t>(end - counted)}));
    counted = end;
    return characters;
  };
  splitter_.split(
      text,
      [&](const Word& word) {
        const std::size_t before = ids.size();
        add_word(word, ids);
        add_spans(word, character_at(word.source), std::span(ids).subspan(before), spans);
      },
      [&](int special, const unsigned char* position) {
        const auto index = static_cast<std::size_t>(special);
        const std::int32_t begin = character_at(position);
        ids.push_back(special_ids_[index]);
        spans.push_back({begin, begin + static_cast<std::int32_t>(std::strlen(vocabulary_.layout().tokens[index]))});
      });
}

void WordPieceEncoder::encode_beside_added(std::string_view text, std::vector<std::int32_t>& ids) {
  const auto on_text = [&](const TextPart& part) {
    splitter_.split(
        part.text, [&](const Word& word) { add_word(word, ids); }, [](int, const unsigned char*) {});
  };
  added_->split(text, buffer_, on_text, [&](std::int32_t id, const TextPart&) { ids.push_back(id); });
}

namespace {

/// Counts the characters before ascending positions of a text.
class CharacterCount {
 public:
  explicit CharacterCount(const char* begin) : counted_(begin) {}

  std::int32_t before(const char* position) {
    characters_ += static_cast<std::int32_t>(
        count_characters({counted_, static_cast<std::size_t>(std::max<std::ptrdiff_t>(position - counted_, 0))}));
    counted_ = std::max(counted_, position);
    return characters_;
  }

 private:
  const char* counted_;  // the text before it has `characters_`
  std::int32_t characters_ = 0;
};

}  // namespace

/// Spans of normalized text are first those of its characters, and then of those that these were made from.
void WordPieceEncoder::encode_beside_added(std::string_view text, std::vector<std::int32_t>& ids,
                                           std::vector<TokenSpan>& spans) {
  CharacterCount raw(text.data());
  CharacterCount normalized(nullptr);
  const char* stretch = nullptr;  // the normalized one that is counted
  std::int32_t stretch_begin = 0;
  const auto enter = [&](const TextPart& part) {
    if (part.normalized == nullptr || part.stretch.data() == stretch) return;
    stretch = part.stretch.data();
    stretch_begin = raw.before(stretch);
    normalized = CharacterCount(part.normalized->bytes.data());
  };
  const auto character_at = [&](const TextPart& part, const char* position) {
    return (part.normalized == nullptr ? raw : normalized).before(position);
  };
  const auto in_text = [&](const TextPart& part, TokenSpan& span) {
    if (part.normalized == nullptr) return;
    const std::vector<std::int32_t>& origins = part.normalized->origins;
    span = {stretch_begin + origins[static_cast<std::size_t>(span.begin)],
            stretch_begin + origins[static_cast<std::size_t>(span.end - 1)] + 1};
  };
  const auto on_text = [&](const TextPart& part) {
    enter(part);
    const auto on_word = [&](const Word& word) {
      const std::size_t before = ids.size(), spans_before = spans.size();
      add_word(word, ids);
      const std::int32_t begin = character_at(part, reinterpret_cast<const char*>(word.source));
      add_spans(word, begin, std::span(ids).subspan(before), spans);
      for (TokenSpan& span : std::span(spans).subspan(spans_before)) in_text(part, span);
    };
    splitter_.split(part.text, on_word, [](int, const unsigned char*) {});
  };
  const auto on_token = [&](std::int32_t id, const TextPart& part) {
    enter(part);
    const std::int32_t begin = character_at(part, part.text.data());
    TokenSpan span{begin, character_at(part, part.text.data() + part.text.size())};
    in_text(part, span);
    // RobertaProcessing leaves the blanks out that the mask takes.
    if (vocabulary_.layout().of_roberta) {
      const auto [leading, trailing] = blanks_of(part.text);
      span.begin = std::min(span.begin + leading, span.end);
      span.end = std::max(span.end - trailing, span.begin);
    }
    ids.push_back(id);
    spans.push_back(span);
  };
  added_->split(text, buffer_, on_text, on_token);
}

/// Spans of the pieces `ids` of `word`, whose source begins at character `begin` of the text.
void WordPieceEncoder::add_spans(const Word& word, std::int32_t begin, std::span<const std::int32_t> ids,
                                 std::vector<TokenSpan>& spans) const {
  const auto origin = [&](std::int64_t character) {
    return begin + (word.origins == nullptr ? static_cast<std::int32_t>(character) : word.origins[character]);
  };
  if (ids.front() == vocabulary_.special().unk) {
    spans.push_back({origin(0), begin + word.characters});
    return;
  }
  const char* bytes = word.bytes;
  std::int64_t character = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t size = vocabulary_.piece(ids[i]).size() - (i == 0 ? 0 : std::strlen("##"));
    const std::int64_t next = character + count_characters({bytes, size});
    spans.push_back({origin(character), origin(next - 1) + 1});
    character = next;
    bytes += size;
  }
}

void WordPieceEncoder::encode_word(std::string_view word, std::vector<std::int32_t>& ids) {
  cut(word.data(), static_cast<int>(word.size()), ids);
}

void WordPieceEncoder::add_word(const Word& word, std::vector<std::int32_t>& ids) {
  if (word.too_long) {
    ids.push_back(vocabulary_.special().unk);
    return;
  }
  if (word.size > ShortWord::longest) return cut(word.bytes, word.size, ids);
  append_cached(cache_, ShortWord(word), ids, [&](std::vector<std::int32_t>& to) { cut(word.bytes, word.size, to); });
}

void WordPieceEncoder::cut(const char* bytes, int size, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  int at = 0;
  while (at < size) {
    const Vocabulary::Match match =
        at == 0 ? vocabulary_.longest_first(bytes, size) : vocabulary_.longest_later(bytes + at, size - at);
    if (match.id < 0) break;
    ids.push_back(match.id);
    at += match.size;
  }
  if (at < size) {
    ids.resize(before);
    ids.push_back(vocabulary_.special().unk);
  }
}

}  // namespace bert_hpc::tokenize
