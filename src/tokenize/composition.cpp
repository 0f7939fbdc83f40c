// Only stretches of characters that may change, each with the character before it, are decomposed; others are copied.
#include "bert_hpc/tokenize/composition.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::tokenize {
namespace {

struct Composition {
  char32_t point, first, second;
};
struct Decomposition {
  char32_t point;
  char32_t form[4];
};
struct MarkRun {
  char32_t first, last;
  std::uint8_t rank;
};

#include "compositions.inc"

// Hangul is computed (Unicode 15, chapter 3.12).
constexpr char32_t syllable_first = 0xAC00, syllable_last = 0xD7A3;
constexpr char32_t lead_first = 0x1100, vowel_first = 0x1161, tail_none = 0x11A7;
constexpr char32_t leads = 19, vowels = 21, tails = 28;

constexpr bool is_syllable(char32_t point) {
  return point >= syllable_first && point <= syllable_last;
}

/// Unfolded tables. `kinds` states of each code point whether it can change.
class CompositionTable {
 public:
  static constexpr std::uint8_t stays = 0, may_change = 255;  // between them: ranks of marks

  CompositionTable() : kinds_(0x110000, stays) {
    for (const Composition& one : compositions) {
      pairs_.emplace_back(key_of(one.first, one.second), one.point);
      kinds_[one.second] = may_change;
    }
    std::sort(pairs_.begin(), pairs_.end());
    for (const Decomposition& one : decompositions) kinds_[one.point] = may_change;
    for (char32_t i = 0; i < vowels; ++i) kinds_[vowel_first + i] = may_change;
    for (char32_t i = 1; i < tails; ++i) kinds_[tail_none + i] = may_change;
    for (const MarkRun& run : mark_runs) std::fill(&kinds_[run.first], &kinds_[run.last] + 1, run.rank);
  }

  bool changes(char32_t point) const { return kinds_[point] != stays; }
  /// Rank of a mark by its combining class; 0: `point` is none.
  int rank(char32_t point) const { return kinds_[point] == may_change ? 0 : kinds_[point]; }

  /// Calls on_part(char32_t) for each character that `point` consists of.
  template <class OnPart>
  void decompose(char32_t point, OnPart&& on_part) const {
    if (is_syllable(point)) {
      const char32_t index = point - syllable_first, tail = index % tails;
      on_part(lead_first + index / (vowels * tails));
      on_part(vowel_first + index % (vowels * tails) / tails);
      if (tail != 0) on_part(tail_none + tail);
      return;
    }
    if (const Composition* const one = find(compositions, point)) {
      decompose(one->first, on_part);
      return on_part(one->second);
    }
    const Decomposition* const one = find(decompositions, point);
    if (one == nullptr) return on_part(point);
    std::for_each(one->form, std::find(one->form, one->form + 4, U'\0'), on_part);
  }

  /// 0: the two stay two.
  char32_t joined(char32_t first, char32_t second) const {
    const char32_t lead = first - lead_first, vowel = second - vowel_first, tail = second - tail_none;
    if (lead < leads && vowel < vowels) return syllable_first + (lead * vowels + vowel) * tails;
    if (is_syllable(first) && (first - syllable_first) % tails == 0 && tail > 0 && tail < tails) return first + tail;
    const std::pair wanted(key_of(first, second), char32_t{0});
    const auto found = std::lower_bound(pairs_.begin(), pairs_.end(), wanted);
    return found != pairs_.end() && found->first == wanted.first ? found->second : 0;
  }

 private:
  static std::uint64_t key_of(char32_t first, char32_t second) {
    return static_cast<std::uint64_t>(first) << 32 | second;
  }
  template <class Row, std::size_t Size>
  static const Row* find(const Row (&rows)[Size], char32_t point) {
    const Row* const found = std::lower_bound(std::begin(rows), std::end(rows), point,
                                              [](const Row& row, char32_t wanted) { return row.point < wanted; });
    return found != std::end(rows) && found->point == point ? found : nullptr;
  }

  std::vector<std::uint8_t> kinds_;                        // (0x110000)
  std::vector<std::pair<std::uint64_t, char32_t>> pairs_;  // ascending
};

const CompositionTable& composition_table() {
  static const CompositionTable table;
  return table;
}

/// The parts of one more character.
void add_parts(const CompositionTable& table, char32_t point, std::vector<NormalizedText::Part>& parts) {
  std::int32_t taken = 1;
  table.decompose(point, [&](char32_t own) {
    const auto rank = static_cast<std::uint64_t>(table.rank(own));
    parts.push_back({own, taken, rank << 32 | parts.size()});
    taken = 0;
  });
}

/// Puts marks in canonical order, those of one class in that of the text.
void sort_marks(std::vector<NormalizedText::Part>& parts) {
  const auto is_mark = [](const NormalizedText::Part& part) { return part.order >> 32 != 0; };
  const auto is_before = [](const NormalizedText::Part& a, const NormalizedText::Part& b) { return a.order < b.order; };
  for (auto at = parts.begin(); at != parts.end();) {
    const auto begin = std::find_if(at, parts.end(), is_mark);
    at = std::find_if_not(begin, parts.end(), is_mark);
    std::sort(begin, at, is_before);
  }
}

/// Joins parts with the last one before them that is no mark, unless one of their class or a higher one lies between.
void join_parts(const CompositionTable& table, std::vector<NormalizedText::Part>& parts) {
  NormalizedText::Part* base = nullptr;
  std::size_t kept = 0;
  int last_rank = 0;  // of the part before; 0: it is the base
  for (const NormalizedText::Part part : parts) {
    const int rank = table.rank(part.point);
    if (base != nullptr && (last_rank == 0 || last_rank < rank)) {
      if (const char32_t joined = table.joined(base->point, part.point); joined != 0) {
        base->point = joined;
        base->taken += part.taken;
        continue;
      }
    }
    parts[kept] = part;
    if (rank == 0) base = &parts[kept];
    last_rank = rank;
    ++kept;
  }
  parts.resize(kept);
}

/// `first`: number of the text's character that the parts begin with.
void write_parts(std::int32_t first, NormalizedText& composed) {
  std::int32_t number = first;
  for (const NormalizedText::Part& part : composed.parts) {
    char bytes[4];
    composed.bytes.append(bytes, static_cast<std::size_t>(encode_utf8(part.point, bytes) - bytes));
    composed.origins.push_back(part.taken > 0 ? number : number - 1);
    number += part.taken;
  }
}

}  // namespace

bool is_composed(std::string_view text) {
  const CompositionTable& table = composition_table();
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at != end) {
    if (std::uint64_t bytes = 0; end - at >= std::ptrdiff_t{sizeof bytes}) {  // eight characters of ASCII at once
      std::memcpy(&bytes, at, sizeof bytes);
      if ((bytes & 0x8080808080808080u) == 0) {
        at += sizeof bytes;
        continue;
      }
    }
    if (table.changes(decode_utf8(at, end))) return false;
  }
  return true;
}

void compose(std::string_view text, NormalizedText& composed) {
  const CompositionTable& table = composition_table();
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = begin + text.size();
  composed.bytes.clear();
  composed.origins.clear();
  const unsigned char *copied = begin, *before = begin;  // the text that is done; the character before `at`
  std::int32_t number = 0;                               // of the character at `at`
  const auto copy_until = [&](const unsigned char* until) {
    composed.bytes.append(reinterpret_cast<const char*>(copied), static_cast<std::size_t>(until - copied));
    copied = until;
  };
  for (const unsigned char* at = begin; at != end;) {
    const unsigned char* next = at;
    char32_t point = decode_utf8(next, end);
    if (!table.changes(point)) {
      composed.origins.push_back(number++);
      before = std::exchange(at, next);
      continue;
    }
    composed.parts.clear();
    std::int32_t first = number;
    if (copied != at) {  // the character before it stays unless this one joins it
      copy_until(before);
      composed.origins.pop_back();
      --first;
      add_parts(table, decode_utf8(before, end), composed.parts);
    }
    while (table.changes(point)) {
      add_parts(table, point, composed.parts);
      ++number;
      at = next;
      if (at == end) break;
      point = decode_utf8(next, end);
    }
    copied = at;
    sort_marks(composed.parts);
    join_parts(table, composed.parts);
    write_parts(first, composed);
  }
  copy_until(end);
}

}  // namespace bert_hpc::tokenize
