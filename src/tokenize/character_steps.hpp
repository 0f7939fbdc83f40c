// Steps of a normalizer that change single characters, as Hugging Face's NFC, NFKD, StripAccents and Lowercase:
// canonical composition, compatibility decomposition in canonical order (Unicode Standard Annex 15), without combining
// marks, in lower case. Internal to the module.
#pragma once

#include <string_view>

#include "bert_hpc/tokenize/origin_text.hpp"

namespace bert_hpc::tokenize {

enum class CharacterStep { compose, decompose, strip_accents, lowercase };

/// Whether the text, well-formed UTF-8, is left as it is for certain.
bool leaves(CharacterStep step, std::string_view text);
/// Appends what becomes of `text` to `to`, with origins if `text` has them.
void apply(CharacterStep step, const OriginText& text, OriginText& to);

}  // namespace bert_hpc::tokenize
