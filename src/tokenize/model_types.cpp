#include "model_types.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/word_marks.hpp"
#include "json_sections.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;

/// Old files do not say the type of their model.
std::string type_of_model(const json& model) {
  const json& type = member(model, "type");
  if (type.is_string()) return core::printable(type.get<std::string>(), 40);
  if (model.contains("merges")) return "BPE";
  if (member(model, "vocab").is_array()) return "Unigram";
  return model.contains("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

bool has_element(const json& document, const char* section, const char* list, const char* type) {
  const std::vector<json> elements = elements_of(member(document, section), list);
  return std::any_of(elements.begin(), elements.end(), [&](const json& element) { return has_type(element, type); });
}

bool writes_mark(const json& normalizer) {
  for (const auto& [type, key] : {std::pair("Replace", "content"), std::pair("Prepend", "prepend")}) {
    const json& text = member(normalizer, key);
    const bool is_text = has_type(normalizer, type) && text.is_string();
    if (is_text && text.get_ref<const std::string&>().find(word_mark) != std::string::npos) return true;
  }
  return false;
}

bool is_metaspace_bpe(const json& document) {
  if (has_element(document, "pre_tokenizer", "pretokenizers", "ByteLevel")) return false;
  const std::vector<json> normalizers = elements_of(member(document, "normalizer"), "normalizers");
  return is_on(member(document, "model"), "byte_fallback", false) ||
         has_element(document, "pre_tokenizer", "pretokenizers", "Metaspace") ||
         std::any_of(normalizers.begin(), normalizers.end(), writes_mark);
}

}  // namespace

std::string model_of(const json& document) {
  const std::string type = type_of_model(member(document, "model"));
  return type == "BPE" && is_metaspace_bpe(document) ? metaspace_bpe_model : type;
}

}  // namespace bert_hpc::tokenize
