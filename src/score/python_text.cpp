// Python's str.lower, str.split and re's \b by generated tables (generate_tables.py).
#include "bert_hpc/score/python_text.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::score {
namespace {

struct Run {
  char32_t first, last;
};
struct ShiftRun {
  char32_t first, last;
  int step, difference;
};

#include "python_tables.inc"

constexpr char32_t capital_sigma = 0x3A3, small_sigma = 0x3C3, final_sigma = 0x3C2;
constexpr char32_t capital_dotted_i = 0x130, combining_dot = 0x307;

/// The run that may hold the point: the last one that begins at or before it, or null.
template <class R, std::size_t n>
const R* run_of(const R (&runs)[n], char32_t point) {
  const R* after =
      std::upper_bound(std::begin(runs), std::end(runs), point, [](char32_t p, const R& run) { return p < run.first; });
  return after == std::begin(runs) || point > (after - 1)->last ? nullptr : after - 1;
}

bool is_word(char32_t point) {
  return run_of(word_runs, point) != nullptr;
}

char32_t lower_of(char32_t point) {
  const ShiftRun* run = run_of(lower_runs, point);
  if (run == nullptr || (point - run->first) % static_cast<char32_t>(run->step) != 0) return point;
  return static_cast<char32_t>(static_cast<int>(point) + run->difference);
}

/// Unicode's Final_Sigma (chapter 3.13): a cased letter before, none after, both beyond characters that are ignored.
bool is_final_sigma(std::u32string_view text, std::size_t index) {
  std::size_t before = index;
  while (before > 0 && run_of(ignorable_runs, text[before - 1]) != nullptr) --before;
  if (before == 0 || run_of(cased_runs, text[before - 1]) == nullptr) return false;
  std::size_t after = index + 1;
  while (after < text.size() && run_of(ignorable_runs, text[after]) != nullptr) ++after;
  return after == text.size() || run_of(cased_runs, text[after]) == nullptr;
}

/// string.punctuation: all printable ASCII characters but letters, digits and the blank.
bool is_ascii_punctuation(char32_t point) {
  return (point > ' ' && point < '0') || (point > '9' && point < 'A') || (point > 'Z' && point < 'a') ||
         (point > 'z' && point < 0x7F);
}

/// Each article that is a whole word becomes a blank.
std::u32string without_articles(std::u32string_view text) {
  static constexpr std::array<std::u32string_view, 3> articles = {U"a", U"an", U"the"};
  std::u32string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::u32string_view word = text.substr(begin, end - begin);
    if (word.empty()) {
      kept += text[begin++];
      continue;
    }
    if (std::find(articles.begin(), articles.end(), word) == articles.end()) {
      kept += word;
    } else {
      kept += U' ';
    }
    begin = end;
  }
  return kept;
}

std::u32string decoded(std::string_view utf8) {
  std::u32string text;
  text.reserve(utf8.size());
  const auto* at = reinterpret_cast<const unsigned char*>(utf8.data());
  const unsigned char* const end = at + utf8.size();
  while (at < end) text += tokenize::decode_utf8(at, end);
  return text;
}

}  // namespace

std::u32string lower(std::u32string_view text) {
  std::u32string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == capital_dotted_i) {
      (result += U'i') += combining_dot;
    } else if (text[i] == capital_sigma) {
      result += is_final_sigma(text, i) ? final_sigma : small_sigma;
    } else {
      result += lower_of(text[i]);
    }
  }
  return result;
}

std::vector<std::u32string> split(std::u32string_view text) {
  std::vector<std::u32string> parts;
  const auto is_blank = [](char32_t point) { return run_of(blank_runs, point) != nullptr; };
  for (auto begin = text.begin();;) {
    begin = std::find_if_not(begin, text.end(), is_blank);
    if (begin == text.end()) return parts;
    const auto end = std::find_if(begin, text.end(), is_blank);
    parts.emplace_back(begin, end);
    begin = end;
  }
}

std::vector<std::u32string> answer_words(std::string_view utf8) {
  std::u32string text = lower(decoded(utf8));
  text.erase(std::remove_if(text.begin(), text.end(), is_ascii_punctuation), text.end());
  return split(without_articles(text));
}

}  // namespace bert_hpc::score
