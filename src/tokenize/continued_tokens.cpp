// Words in sequences of tokens, as far as the spelling of tokens shows them.
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "model_types.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;

std::vector<bool> continued_in(const json& document) {
  const json& model = document.at("model");
  const TokenizerKind* const kind = find_tokenizer_model(model_of(document));
  if (kind == nullptr) throw json::other_error::create(0, "unknown model", &model);
  std::vector<bool> continued;
  const auto set = [&](std::size_t id, bool value) {
    if (id >= continued.size()) continued.resize(id + 1);
    continued[id] = value;
  };
  const json& vocabulary = model.at("vocab");
  if (vocabulary.is_array()) {  // [token, score] by id
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      set(id, kind->continues_word(vocabulary[id].at(0).get_ref<const std::string&>()));
    }
  } else {
    for (const auto& [token, id] : vocabulary.items()) set(id.get<std::size_t>(), kind->continues_word(token));
  }
  for (const json& token : document.at("added_tokens")) set(token.at("id").get<std::size_t>(), false);
  return continued;
}

}  // namespace

std::vector<bool> continued_tokens(const std::string& text, const std::string& source) {
  try {
    return continued_in(core::parse_json(text));
  } catch (const json::exception& error) {
    throw core::Error(core::ExitCode::data, source + ": its tokenizer is damaged (" + error.what() +
                                                "); prepare the text again with bert_hpc_prep.");
  }
}

}  // namespace bert_hpc::tokenize
