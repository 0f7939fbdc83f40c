// How text was made into tokens, as far as files tell: shards, a tokenizer_config.json, an input of bert_hpc_prep.
#pragma once

#include <array>
#include <optional>

namespace bert_hpc::data {

/// None: not told.
struct TextSettings {
  std::optional<bool> lowercase, strip_accents, tokenize_chinese_chars;

  /// With what follows from the rest: accents go with the case (Hugging Face's `strip_accents = null`).
  TextSettings completed() const;
};

struct TextSetting {
  const char* name;               ///< in shards and inputs
  const char* hugging_face_name;  ///< in tokenizer_config.json
  std::optional<bool> TextSettings::*value;
};

/// All of them; the later may follow from the earlier.
inline constexpr std::array<TextSetting, 3> text_settings{{
    {"lowercase", "do_lower_case", &TextSettings::lowercase},
    {"strip_accents", "strip_accents", &TextSettings::strip_accents},
    {"tokenize_chinese_chars", "tokenize_chinese_chars", &TextSettings::tokenize_chinese_chars},
}};

/// The first setting in which both are told and differ, completed; null where there is none.
const TextSetting* first_difference(const TextSettings& a, const TextSettings& b);

inline const char* word(bool value) {
  return value ? "true" : "false";
}

}  // namespace bert_hpc::data
