// Texts that are given in words, each with a label. Readers give the words of a row as one text, each with word_end
// behind it; tables, whose cells are one text, have blanks between words. Tags are given as words are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/data/words.hpp"
#include "bert_hpc/prep/made_row.hpp"

namespace bert_hpc::prep {

using data::word_end;

/// The words of such a text: those that end with word_end, or where it holds none those between blanks.
std::vector<std::string_view> words_in(std::string_view text);
std::int64_t count_words(std::string_view text);
/// The words with word_end behind each, as shards hold them.
std::string words_text(std::string_view text);

/// Fills `window` (words): the number of the window that a word belongs to. It is one that holds the word's first
/// token, and of those the one with the most tokens on the word's shorter side (as BERT's run_squad.py judges windows),
/// the first among equals, but none before that of an earlier word.
void assign_words(const std::vector<Window>& windows, std::span<const std::int32_t> word_ends,
                  std::vector<std::int32_t>& window);

/// Appends (tokens): the number of the row's word that each token of sequence `number` is a part of; −2 − number of the
/// word for the token that stands for an empty one; −1 for special tokens and for words that belong to another window.
void add_word_numbers(const MadeRow& row, std::size_t number, std::vector<std::int32_t>& numbers);

/// The words of a sequence. numbers (tokens): add_word_numbers().
struct SequenceWords {
  std::vector<std::int32_t> tokens;   ///< (words, 2): [begin, end); [t, t) if token t stands for an empty word
  std::vector<std::int32_t> numbers;  ///< (words): number in the row
};
SequenceWords sequence_words(std::span<const std::int32_t> numbers);

}  // namespace bert_hpc::prep
