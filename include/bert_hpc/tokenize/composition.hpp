// Unicode's normal form C (Unicode Standard Annex 15): characters are decomposed, marks are put in canonical order,
// and neighbours that can be one character become one. Which ones is the answer of Hugging Face's `tokenizers`, asked
// about every code point by src/tokenize/generate_compositions.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::tokenize {

/// Text as a normalizer makes it.
struct NormalizedText {
  struct Part {
    char32_t point;
    std::int32_t taken;   // characters of the text that it stands for; 0: it belongs to the part before it
    std::uint64_t order;  // its combining class, and then its index
  };

  std::string bytes{};                  ///< UTF-8
  std::vector<std::int32_t> origins{};  ///< (characters): number of the character that each was made from
  std::vector<Part> parts{};            ///< memory of compose()
};

/// Whether no character of the text, well-formed UTF-8, can change beside any others.
bool is_composed(std::string_view text);

/// Replaces `composed` by the normal form of the text, well-formed UTF-8. Origins are those of `tokenizers`: a
/// character that was made of several has the first of them, and marks in another order have the characters of their
/// new positions.
void compose(std::string_view text, NormalizedText& composed);

}  // namespace bert_hpc::tokenize
