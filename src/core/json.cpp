#include "bert_hpc/core/json.hpp"

#include <nlohmann/json.hpp>

namespace bert_hpc::core {

nlohmann::json parse_json(std::string_view text) {
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

std::string json_text(const nlohmann::json& json, int indent, bool ascii) {
  return json.dump(indent, ' ', ascii, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& json, int indent, bool ascii) {
  return json.dump(indent, ' ', ascii, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace bert_hpc::core
