// TextSettings out of JSON. Private to data: public headers do without the JSON library, which not every module has.
#pragma once

#include <nlohmann/json.hpp>

#include "bert_hpc/data/text_settings.hpp"

namespace bert_hpc::data {

/// The settings that a JSON object has under their `name`; what is no boolean is not known.
inline TextSettings read_text_settings(const nlohmann::json& object, const char* TextSetting::*name) {
  TextSettings known;
  for (const TextSetting& setting : text_settings) {
    const auto entry = object.find(setting.*name);
    if (entry != object.end() && entry->is_boolean()) known.*setting.value = entry->get<bool>();
  }
  return known;
}

}  // namespace bert_hpc::data
