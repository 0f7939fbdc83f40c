// Words through the cache, and the greedy cut for those not in it.
#include "bert_hpc/tokenize/wordpiece.hpp"

#include <cstring>
#include <iterator>
#include <string>

namespace bert_hpc::tokenize {

WordPieceEncoder::WordPieceEncoder(const Vocabulary& vocabulary, const TextForm& form)
    : vocabulary_(vocabulary),
      splitter_(form, {std::begin(special_token_names), std::end(special_token_names)}),
      special_ids_{vocabulary.special().pad, vocabulary.special().unk, vocabulary.special().cls,
                   vocabulary.special().sep, vocabulary.special().mask},
      cache_(std::size_t{1} << cache_bits) {}

void WordPieceEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  splitter_.split(
      text, [&](const Word& word) { encode_word(word, ids); },
      [&](int special) { ids.push_back(special_ids_[static_cast<std::size_t>(special)]); });
}

void WordPieceEncoder::encode_word(const Word& word, std::vector<std::int32_t>& ids) {
  if (word.size > 16) return cut(word, ids);
  std::uint64_t key[2];
  std::memcpy(key, word.bytes, 16);
  const std::uint64_t mixed = (key[0] ^ (key[1] * 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9;
  CacheEntry& entry = cache_[(mixed ^ (mixed >> 29)) * 0x94D049BB133111EB >> (64 - cache_bits)];
  if (entry.key[0] == key[0] && entry.key[1] == key[1]) {
    ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
    return;
  }
  const std::size_t before = ids.size();
  cut(word, ids);
  const std::size_t count = ids.size() - before;
  if (count <= std::size(entry.ids)) {
    entry.key[0] = key[0];
    entry.key[1] = key[1];
    entry.count = static_cast<std::int32_t>(count);
    std::memcpy(entry.ids, ids.data() + before, count * sizeof(std::int32_t));
  }
}

void WordPieceEncoder::cut(const Word& word, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  int at = 0;
  while (!word.too_long && at < word.size) {
    const Vocabulary::Match match = at == 0 ? vocabulary_.longest_first(word.bytes, word.size)
                                            : vocabulary_.longest_later(word.bytes + at, word.size - at);
    if (match.id < 0) break;
    ids.push_back(match.id);
    at += match.size;
  }
  if (at < word.size) {
    ids.resize(before);
    ids.push_back(vocabulary_.special().unk);
  }
}

}  // namespace bert_hpc::tokenize
