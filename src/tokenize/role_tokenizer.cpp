#include "role_tokenizer.hpp"

#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/json.hpp"

namespace bert_hpc::tokenize {

TokenizerSpec RoleTokenizer::spec() const {
  const std::string text = json_text();
  return {text, core::hash_of_lines({text})};
}

std::vector<Tokenizer::File> RoleTokenizer::files(std::int64_t max_tokens) const {
  const nlohmann::json config = config_of(roles_, parts_.added, "PreTrainedTokenizerFast", max_tokens);
  return {{"tokenizer_config.json", core::json_text(config, 2) + "\n"}, {"tokenizer.json", json_text()}};
}

void RoleTokenizer::finish_roles() {
  add_role_tokens(roles_, parts_);
  hash_ = tokenize::vocabulary_hash(parts_);
}

std::int32_t RoleTokenizer::id_in_vocabulary(const std::string& token) const {
  const std::int32_t id = roles_.id_of(token);
  return id < std::ssize(parts_.vocabulary) ? id : -1;
}

std::array<std::int32_t, 256> RoleTokenizer::byte_token_ids() const {
  std::array<std::int32_t, 256> ids{};
  for (unsigned byte = 0; byte < ids.size(); ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    ids[byte] = id_in_vocabulary(name);
  }
  return ids;
}

ByteTrie RoleTokenizer::vocabulary_trie(const std::string& source) const {
  std::size_t bytes = 0;
  for (const std::string& token : parts_.vocabulary) bytes += token.size();
  if (bytes >= ByteTrie::largest) {
    throw core::Error(core::ExitCode::data, source + ": its vocabulary is too long: more than 16 MiB.");
  }
  ByteTrie trie(bytes);
  for (std::size_t id = 0; id < parts_.vocabulary.size(); ++id) {
    if (!parts_.vocabulary[id].empty()) trie.insert(0, parts_.vocabulary[id], static_cast<std::int32_t>(id));
  }
  return trie;
}

}  // namespace bert_hpc::tokenize
