// JSON from and to text. The library's parser and writer take seconds to compile: all files share the ones of json.cpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace bert_hpc::core {

/// Discarded where `text` is no JSON. Callers limit its length and its depth (core/json_depth.hpp).
nlohmann::json parse_json(std::string_view text);

/// `indent` < 0: on one line. ascii: other characters as \uNNNN. Bytes that are no UTF-8 become U+FFFD.
std::string json_text(const nlohmann::json& json, int indent = -1, bool ascii = false);
std::string json_text(const nlohmann::ordered_json& json, int indent = -1, bool ascii = false);

}  // namespace bert_hpc::core
