// Unfolds the generated runs of unicode_tables.inc into flat arrays, and decomposes Hangul by arithmetic (Unicode 15,
// chapter 3.12) instead of 11,172 table rows.
#include "bert_hpc/tokenize/characters.hpp"

#include <algorithm>

namespace bert_hpc::tokenize {
namespace {

struct FlagRun {
  char32_t first, last;
  std::uint8_t flags;
};
struct ShiftRun {
  char32_t first, last;
  int step, difference;
};
struct Expansion {
  char32_t point;
  char32_t form[4];
};
struct ReorderRank {
  char32_t point;
  int rank;
};

#include "unicode_tables.inc"

constexpr char32_t single_limit = 0x30000;    // no single-character form lies above
constexpr char32_t lower_limit = 0x20000;     // no letter with a lower case lies above
constexpr char32_t capital_dotted_i = 0x130;  // the only one whose lower case is two characters: i and the dot
constexpr char32_t hangul_first = 0xAC00, hangul_last = 0xD7A3;

}  // namespace

CharacterTable::CharacterTable() : flags_(0x110000), single_(single_limit), lower_(lower_limit) {
  for (const FlagRun& run : flag_runs) std::fill(&flags_[run.first], &flags_[run.last] + 1, run.flags);
  for (const ShiftRun& run : shift_runs) {
    for (char32_t point = run.first; point <= run.last; point += static_cast<char32_t>(run.step)) {
      flags_[point] |= character_flag::mapped;
      single_.at(point) = static_cast<char32_t>(static_cast<int>(point) + run.difference);
    }
  }
  for (const ShiftRun& run : lower_runs) {
    for (char32_t point = run.first; point <= run.last; point += static_cast<char32_t>(run.step)) {
      lower_.at(point) = static_cast<char32_t>(static_cast<int>(point) + run.difference);
    }
  }
  for (const Expansion& expansion : expansions) flags_[expansion.point] |= character_flag::mapped;
  for (char32_t point = hangul_first; point <= hangul_last; ++point) flags_[point] |= character_flag::mapped;
}

std::span<const char32_t> CharacterTable::uncased_form(char32_t point, char32_t (&scratch)[4]) const {
  if (point < single_limit && single_[point] != 0) return {&single_[point], 1};
  if (point >= hangul_first && point <= hangul_last) {
    const char32_t index = point - hangul_first;
    scratch[0] = 0x1100 + index / 588;
    scratch[1] = 0x1161 + index % 588 / 28;
    scratch[2] = 0x11A7 + index % 28;
    return {scratch, index % 28 != 0 ? 3u : 2u};
  }
  const auto* found = std::lower_bound(std::begin(expansions), std::end(expansions), point,
                                       [](const Expansion& e, char32_t p) { return e.point < p; });
  const auto* last = std::find(found->form, found->form + 4, U'\0');
  return {found->form, last};
}

std::span<const char32_t> CharacterTable::lower_form(char32_t point, char32_t (&scratch)[4]) const {
  if (point == capital_dotted_i) {
    scratch[0] = U'i';
    scratch[1] = 0x307;
    return {scratch, 2};
  }
  scratch[0] = point < lower_limit && lower_[point] != 0 ? lower_[point] : point;
  return {scratch, 1};
}

int CharacterTable::reorder_rank(char32_t point) const {
  const auto* found = std::lower_bound(std::begin(reorder_ranks), std::end(reorder_ranks), point,
                                       [](const ReorderRank& r, char32_t p) { return r.point < p; });
  return found->rank;
}

const CharacterTable& character_table() {
  static const CharacterTable table;
  return table;
}

const char* character_table_source() {
  return tables_source;
}

}  // namespace bert_hpc::tokenize
