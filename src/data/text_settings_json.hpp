// TextSettings out of JSON. Private to data: public headers do without the JSON library, which not every module has.
#pragma once

#include <nlohmann/json.hpp>

#include "bert_hpc/data/text_settings.hpp"

namespace bert_hpc::data {

/// What a JSON object tells under `name` of each setting; what is no boolean is not told.
inline TextSettings read_text_settings(const nlohmann::json& object, const char* TextSetting::*name) {
  TextSettings told;
  for (const TextSetting& setting : text_settings) {
    const auto entry = object.find(setting.*name);
    if (entry != object.end() && entry->is_boolean()) told.*setting.value = entry->get<bool>();
  }
  return told;
}

}  // namespace bert_hpc::data
