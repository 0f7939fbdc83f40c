// A small cache from short words to what was made of them. Text follows Zipf's law, so most words cost one probe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "bert_hpc/tokenize/word_splitter.hpp"

namespace bert_hpc::tokenize {

/// Direct-mapped: a word evicts the one that was in its slot.
template <class Value>
class WordCache {
 public:
  static constexpr int longest = 16;  ///< bytes of a word that it can hold

  explicit WordCache(int bits) : shift_(64 - bits), entries_(std::size_t{1} << bits) {}

  struct Slot {
    Value& value;
    bool is_known;                          ///< else it is that of the word that was there, and the caller sets it
    std::array<char, longest> evicted_key;  ///< the bytes of that word, zeros at the end; all zeros: there was none
    std::string_view evicted() const { return {evicted_key.data(), ::strnlen(evicted_key.data(), longest)}; }
  };
  /// The slot of `word`, whose size is at most `longest`; from now on it is the word's.
  Slot claim(const Word& word) {
    std::uint64_t key[2];
    std::memcpy(key, word.bytes, sizeof key);  // the bytes after the word are zero, and no word contains one
    const std::uint64_t mixed = (key[0] ^ (key[1] * 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9;
    Entry& entry = entries_[(mixed ^ (mixed >> 29)) * 0x94D049BB133111EB >> shift_];
    Slot slot{entry.value, entry.key[0] == key[0] && entry.key[1] == key[1], {}};
    std::memcpy(slot.evicted_key.data(), entry.key, sizeof key);
    std::memcpy(entry.key, key, sizeof key);
    return slot;
  }

  /// Calls visit(word, value) for each word, and forgets all.
  template <class Visit>
  void take_all(Visit&& visit) {
    for (Entry& entry : entries_) {
      const auto* const bytes = reinterpret_cast<const char*>(entry.key);
      if (bytes[0] != 0) visit(std::string_view(bytes, ::strnlen(bytes, longest)), entry.value);
      entry = {};
    }
  }

 private:
  struct Entry {
    std::uint64_t key[2] = {0, 0};  // the word's bytes; no word is all zeros
    Value value{};
  };

  int shift_;
  std::vector<Entry> entries_;
};

}  // namespace bert_hpc::tokenize
