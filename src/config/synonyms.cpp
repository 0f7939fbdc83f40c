#include "synonyms.hpp"

#include "bert_hpc/core/text.hpp"
#include "synonym_tables.hpp"

namespace bert_hpc::config {

KeySuggestion suggested_key(std::string_view name, const std::function<bool(const std::string&)>& has) {
  const std::string wanted = core::folded(name);
  for (const KeySynonym& synonym : key_synonyms) {
    if (wanted != synonym.name || !has(synonym.target)) continue;
    const std::string target = synonym.target, remark = synonym.text;
    const auto dot = target.rfind('.');
    if (dot == std::string::npos) return {"", remark, false};
    const bool continues = remark.starts_with("= ") || remark.starts_with("and ") || remark.starts_with("or ") ||
                           remark.starts_with("to ");
    std::string text = "use [" + target.substr(0, dot) + "] " + target.substr(dot + 1);
    if (!remark.empty()) text += (continues ? " " : ", ") + remark;
    return {target, text, remark.empty()};
  }
  return {};
}

std::string suggested_value(std::string_view value, const std::function<bool(const std::string&)>& has) {
  const std::string wanted = core::folded(value);
  for (const ValueSynonym& synonym : value_synonyms) {
    if (wanted == synonym.value && has(synonym.target)) return synonym.target;
  }
  return {};
}

}  // namespace bert_hpc::config
