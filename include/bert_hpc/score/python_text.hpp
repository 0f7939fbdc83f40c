// Text operations with the results of Python's, on which the numbers of official scorers depend: Unicode lower case,
// blanks and word boundaries. Text is UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::score {

/// str.lower(), with the final sigma at the end of words.
std::u32string lower(std::u32string_view text);

/// str.split(): the parts between runs of Unicode blanks.
std::vector<std::u32string> split(std::u32string_view text);

/// The words of an answer as the SQuAD scripts compare them: lower case, without ASCII punctuation, without the
/// articles "a", "an" and "the" where these are whole words (\b in Python's re).
std::vector<std::u32string> answer_words(std::string_view utf8);

}  // namespace bert_hpc::score
