// What BERT's normalizer does to text before it is split into words.
#pragma once

#include <array>

namespace bert_hpc::tokenize {

struct TextForm {
  bool lowercase = true;
  bool strip_accents = true;           ///< of lower-cased text alone; other text keeps its accents
  bool tokenize_chinese_chars = true;  ///< each ideograph is a word by itself

  bool operator==(const TextForm&) const = default;
};

/// Names of its members.
struct TextFormField {
  const char* name;               ///< in shards and inputs
  const char* hugging_face_name;  ///< in tokenizer_config.json
  bool TextForm::*value;
};
inline constexpr std::array<TextFormField, 3> text_form_fields{{
    {"lowercase", "do_lower_case", &TextForm::lowercase},
    {"strip_accents", "strip_accents", &TextForm::strip_accents},
    {"tokenize_chinese_chars", "tokenize_chinese_chars", &TextForm::tokenize_chinese_chars},
}};

/// Hugging Face's uncased and cased BERT.
inline constexpr TextForm uncased{}, cased{.lowercase = false, .strip_accents = false};

}  // namespace bert_hpc::tokenize
