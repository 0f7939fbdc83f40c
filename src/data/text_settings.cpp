#include "bert_hpc/data/text_settings.hpp"

#include <nlohmann/json.hpp>

namespace bert_hpc::data {

TextSettings TextSettings::completed() const {
  TextSettings all = *this;
  if (!all.strip_accents) all.strip_accents = all.lowercase;
  return all;
}

TextSettings read_text_settings(const nlohmann::json& object, const char* TextSetting::*name) {
  TextSettings told;
  for (const TextSetting& setting : text_settings) {
    const auto entry = object.find(setting.*name);
    if (entry != object.end() && entry->is_boolean()) told.*setting.value = entry->get<bool>();
  }
  return told;
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
