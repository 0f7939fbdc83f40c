// Short words as two numbers, and a small cache from them to what was made of them. Text follows Zipf's law, so most
// words cost one probe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/word_splitter.hpp"

namespace bert_hpc::tokenize {

/// A word of at most `longest` bytes, padded with zeros; no word contains one. All zeros: none.
struct ShortWord {
  static constexpr int longest = 16;
  std::uint64_t key[2] = {0, 0};

  ShortWord() = default;
  explicit ShortWord(const Word& word) { std::memcpy(key, word.bytes, sizeof key); }  // zeros follow its bytes
  explicit ShortWord(std::string_view word) { std::memcpy(key, word.data(), word.size()); }

  /// The word bytes[0 … size). `end`: of the memory that may be read.
  static ShortWord read(const char* bytes, std::size_t size, const char* end) {
    ShortWord word;
    if (end - bytes < longest) {
      std::memcpy(word.key, bytes, size);
      return word;
    }
    std::memcpy(word.key, bytes, sizeof word.key);
    // Bytes behind the word are cleared; the first byte is the lowest one.
    const unsigned used = 8 * static_cast<unsigned>(size);
    if (used < 64) {
      word.key[0] &= (std::uint64_t{1} << used) - 1;
      word.key[1] = 0;
    } else if (used < 128) {
      word.key[1] &= (std::uint64_t{1} << (used - 64)) - 1;
    }
    return word;
  }

  bool operator==(const ShortWord&) const = default;
  bool is_none() const { return key[0] == 0; }
  std::string text() const {
    const auto* const bytes = reinterpret_cast<const char*>(key);
    return {bytes, ::strnlen(bytes, longest)};
  }
  /// Slot in a table of 2^bits; shift: 64 - bits.
  std::size_t slot(int shift) const {
    const std::uint64_t mixed = (key[0] ^ (key[1] * 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9;
    return (mixed ^ (mixed >> 29)) * 0x94D049BB133111EB >> shift;
  }
};

/// Direct-mapped: a word evicts the one that was in its slot.
template <class Value>
class WordCache {
 public:
  explicit WordCache(int bits) : shift_(64 - bits), entries_(std::size_t{1} << bits) {}

  struct Slot {
    Value& value;
    bool is_known;  ///< else it is that of the word that was there, and the caller sets it
  };
  /// The slot of `word`, whose size is at most ShortWord::longest; from now on it is the word's.
  Slot claim(const Word& word) { return claim(ShortWord(word)); }
  Slot claim(const ShortWord& key) {
    Entry& entry = entries_[key.slot(shift_)];
    const Slot slot{entry.value, entry.key == key};
    entry.key = key;
    return slot;
  }

 private:
  struct Entry {
    ShortWord key;
    Value value{};
  };

  int shift_;
  std::vector<Entry> entries_;
};

/// Token ids of a word, if they are few.
struct FewIds {
  std::int32_t count = 0;  ///< 0: more than there is room for
  std::int32_t ids[3] = {0, 0, 0};
};

/// Appends the ids of a word from the cache. If the cache lacks the word, cut(ids) appends them and the cache keeps
/// them.
template <class Cut>
void append_cached(WordCache<FewIds>& cache, const ShortWord& word, std::vector<std::int32_t>& ids, const Cut& cut) {
  const WordCache<FewIds>::Slot slot = cache.claim(word);
  FewIds& few = slot.value;
  if (slot.is_known && few.count > 0) {
    ids.insert(ids.end(), few.ids, few.ids + few.count);
    return;
  }
  few.count = 0;
  const std::size_t before = ids.size();
  cut(ids);
  const std::size_t count = ids.size() - before;
  if (count > std::size(few.ids)) return;
  few.count = static_cast<std::int32_t>(count);
  std::memcpy(few.ids, ids.data() + before, count * sizeof(std::int32_t));
}

}  // namespace bert_hpc::tokenize
