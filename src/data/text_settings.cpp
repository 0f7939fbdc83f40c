#include "bert_hpc/data/text_settings.hpp"

namespace bert_hpc::data {

TextSettings TextSettings::completed() const {
  TextSettings all = *this;
  if (!all.strip_accents) all.strip_accents = all.lowercase;
  return all;
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
