// How text was made into tokens, as far as files tell: shards, a tokenizer_config.json, an input of bert_hpc_prep.
#pragma once

#include <array>
#include <optional>

#include "bert_hpc/tokenize/text_form.hpp"

namespace bert_hpc::data {

/// None: not known.
struct TextSettings {
  std::optional<bool> lowercase, strip_accents, tokenize_chinese_chars;

  /// With what follows from the rest: accents go with the case (Hugging Face's `strip_accents = null`).
  TextSettings completed() const;

  static TextSettings of(const tokenize::TextForm& form);
  /// What is neither known nor follows from the rest is as in Hugging Face's uncased BERT.
  tokenize::TextForm form() const;
};

struct TextSetting {
  const char* name;               ///< in shards and inputs
  const char* hugging_face_name;  ///< in tokenizer_config.json
  std::optional<bool> TextSettings::*value;
};

constexpr TextSetting text_setting(const tokenize::TextFormField& field, std::optional<bool> TextSettings::*value) {
  return {field.name, field.hugging_face_name, value};
}

/// All of them; the later may follow from the earlier.
inline constexpr std::array<TextSetting, 3> text_settings{{
    text_setting(tokenize::text_form_fields[0], &TextSettings::lowercase),
    text_setting(tokenize::text_form_fields[1], &TextSettings::strip_accents),
    text_setting(tokenize::text_form_fields[2], &TextSettings::tokenize_chinese_chars),
}};

/// The first setting that both know and in which they differ, completed; null where there is none.
const TextSetting* first_difference(const TextSettings& a, const TextSettings& b);

inline const char* word(bool value) {
  return value ? "true" : "false";
}

}  // namespace bert_hpc::data
