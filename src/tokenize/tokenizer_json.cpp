// Which kind of tokenizer a tokenizer.json is of; that kind reads its sections.
#include "bert_hpc/tokenize/tokenizer_json.hpp"

#include "bert_hpc/tokenize/tokenizer.hpp"
#include "json_member.hpp"
#include "model_types.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;

std::string other_kind(const std::string& kind) {
  return "holds a " + kind + " tokenizer; this version reads " + readable_tokenizers() + ".";
}

}  // namespace

TokenizerJson read_tokenizer_json(const std::string& path) {
  TokenizerDocument document = read_tokenizer_document(path);
  TokenizerJson result;
  const json& model = member(document.json, "model");
  if (!model.is_object()) {
    result.problems.push_back("has no model, which every tokenizer.json has.");
    return result;
  }
  result.kind = model_of(document.json);
  if (const TokenizerKind* kind = find_tokenizer_model(result.kind); kind != nullptr) {
    kind->read_json(document, result);
  } else {
    result.problems.push_back(other_kind(result.kind));
  }
  return result;
}

}  // namespace bert_hpc::tokenize
