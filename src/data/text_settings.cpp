#include "bert_hpc/data/text_settings.hpp"

namespace bert_hpc::data {

TextSettings TextSettings::completed() const {
  TextSettings all = *this;
  if (!all.strip_accents) all.strip_accents = all.lowercase;
  return all;
}

TextSettings TextSettings::of(const tokenize::TextForm& form) {
  return {form.lowercase, form.strip_accents, form.tokenize_chinese_chars};
}

tokenize::TextForm TextSettings::form() const {
  TextSettings all = *this;
  if (!all.lowercase) all.lowercase = tokenize::uncased.lowercase;
  if (!all.tokenize_chinese_chars) all.tokenize_chinese_chars = tokenize::uncased.tokenize_chinese_chars;
  all = all.completed();
  return {*all.lowercase, *all.strip_accents, *all.tokenize_chinese_chars};
}

const TextSetting* first_difference(const TextSettings& a, const TextSettings& b) {
  const TextSettings left = a.completed(), right = b.completed();
  for (const TextSetting& setting : text_settings) {
    const auto& x = left.*setting.value;
    const auto& y = right.*setting.value;
    if (x && y && *x != *y) return &setting;
  }
  return nullptr;
}

}  // namespace bert_hpc::data
