#include "bert_hpc/prep/word_rows.hpp"

#include <algorithm>

#include "bert_hpc/core/text.hpp"

namespace bert_hpc::prep {
namespace {

/// Calls visit(word) for each.
template <class Visit>
void each_word(std::string_view text, const Visit& visit) {
  const bool listed = text.find(word_end) != std::string_view::npos;
  while (!text.empty()) {
    if (!listed) text.remove_prefix(std::min(text.find_first_not_of(core::ascii_blanks), text.size()));
    if (text.empty()) return;
    const std::size_t end =
        std::min(listed ? text.find(word_end) : text.find_first_of(core::ascii_blanks), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::vector<std::string_view> words_in(std::string_view text) {
  std::vector<std::string_view> words;
  each_word(text, [&words](std::string_view word) { words.push_back(word); });
  return words;
}

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  each_word(text, [&words](std::string_view) { ++words; });
  return words;
}

std::string words_text(std::string_view text) {
  std::string all;
  each_word(text, [&all](std::string_view word) { all.append(word) += word_end; });
  return all;
}

void assign_words(const std::vector<Window>& windows, std::span<const std::int32_t> word_ends,
                  std::vector<std::int32_t>& window) {
  window.clear();
  std::size_t first = 0;  // the first window that may hold the word
  std::int64_t begin = 0;
  for (const std::int64_t end : word_ends) {
    while (windows[first].end <= begin) ++first;
    std::size_t best = first;
    std::int64_t most = -1;
    for (std::size_t w = first; w < windows.size() && windows[w].begin <= begin; ++w) {
      const std::int64_t context = std::min(begin - windows[w].begin, std::max<std::int64_t>(0, windows[w].end - end));
      if (context > most) {
        most = context;
        best = w;
      }
    }
    window.push_back(static_cast<std::int32_t>(best));
    first = best;  // so that windows hold words in the order of the row
    begin = end;
  }
}

void add_word_numbers(const MadeRow& row, std::size_t number, std::vector<std::int32_t>& numbers) {
  const MadeRow::Sequence& sequence = row.sequences[number];
  const std::size_t begin = numbers.size();
  numbers.resize(begin + row.ids_of(number).size(), -1);
  std::int64_t token = 0;
  for (std::size_t word = 0; word < row.word_ends.size(); ++word) {
    const std::int64_t end = row.word_ends[word];
    if (row.word_window[word] == static_cast<std::int32_t>(number)) {
      const auto index = static_cast<std::int32_t>(word);
      const bool is_empty = std::binary_search(row.empty_words.begin(), row.empty_words.end(), index);
      for (; token < std::min(end, sequence.window.end); ++token) {
        const std::int64_t position = sequence.document + token - sequence.window.begin;
        numbers[begin + static_cast<std::size_t>(position)] = is_empty ? -2 - index : index;
      }
    }
    token = end;
  }
}

SequenceWords sequence_words(std::span<const std::int32_t> numbers) {
  SequenceWords words;
  std::int32_t before = -1;
  for (std::size_t token = 0; token < numbers.size(); ++token) {
    const std::int32_t word = numbers[token];
    const auto end = static_cast<std::int32_t>(token + 1);
    if (word >= 0 && word == before) {
      words.tokens.back() = end;
    } else if (word != -1) {
      words.tokens.insert(words.tokens.end(), {end - 1, word < 0 ? end - 1 : end});
      words.numbers.push_back(word < 0 ? -2 - word : word);
    }
    before = word;
  }
  return words;
}

}  // namespace bert_hpc::prep
