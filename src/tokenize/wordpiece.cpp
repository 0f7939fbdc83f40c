// Words through the cache, and the greedy cut for those not in it.
#include "bert_hpc/tokenize/wordpiece.hpp"

#include <cstring>
#include <iterator>
#include <string>

#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {

WordPieceEncoder::WordPieceEncoder(const Vocabulary& vocabulary, const TextForm& form)
    : vocabulary_(vocabulary), splitter_(form, {std::begin(special_token_names), std::end(special_token_names)}) {
  for (std::size_t i = 0; i < special_roles.size(); ++i) special_ids_[i] = vocabulary.special().*special_roles[i].id;
}

void WordPieceEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  splitter_.split(
      text, [&](const Word& word) { add_word(word, ids); },
      [&](int special, const unsigned char*) { ids.push_back(special_ids_[static_cast<std::size_t>(special)]); });
}

void WordPieceEncoder::encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids,
                                         std::vector<TokenSpan>& spans) {
  const char* counted = text.data();  // the text before it has `characters`
  std::int32_t characters = 0;
  const auto character_at = [&](const unsigned char* place) {
    const auto* const end = reinterpret_cast<const char*>(place);
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
      [&](int special, const unsigned char* place) {
        const auto index = static_cast<std::size_t>(special);
        const std::int32_t begin = character_at(place);
        ids.push_back(special_ids_[index]);
        spans.push_back({begin, begin + static_cast<std::int32_t>(std::strlen(special_token_names[index]))});
      });
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
  const WordCache<Pieces>::Slot slot = cache_.claim(word);
  Pieces& pieces = slot.value;
  if (slot.is_known && pieces.count > 0) {
    ids.insert(ids.end(), pieces.ids, pieces.ids + pieces.count);
    return;
  }
  pieces.count = 0;
  const std::size_t before = ids.size();
  cut(word.bytes, word.size, ids);
  const std::size_t count = ids.size() - before;
  if (count > std::size(pieces.ids)) return;
  pieces.count = static_cast<std::int32_t>(count);
  std::memcpy(pieces.ids, ids.data() + before, count * sizeof(std::int32_t));
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
