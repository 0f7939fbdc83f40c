// Base of tokenizers that have RoleTokens and whose tokenizer.json states all of them. Internal to the module.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/byte_trie.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"
#include "role_tokens.hpp"

namespace bert_hpc::tokenize {

class RoleTokenizer : public Tokenizer {
 public:
  const std::vector<std::string>& tokens() const final { return roles_.tokens; }
  const SpecialIds& special_ids() const final { return roles_.special; }
  const SequenceTemplate& sequence() const final { return roles_.layout.sequence; }
  std::int32_t text_end() const final { return roles_.text_end; }
  const std::string& vocabulary_hash() const final { return hash_; }

  TokenizerSettings settings() const override { return {}; }
  TokenizerSpec spec() const override;
  /// tokenizer_config.json, of no class of its own, and tokenizer.json.
  std::vector<File> files(std::int64_t max_tokens) const override;

 protected:
  explicit RoleTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}

  virtual std::string json_text() const = 0;  ///< of its tokenizer.json

  /// For the constructor of a derived class, once roles_ is set: completes the added tokens and hashes the vocabulary.
  void finish_roles();

  /// The id of a token that is not merely added behind the vocabulary; −1: there is none.
  std::int32_t id_in_vocabulary(const std::string& token) const;
  /// The ids of the vocabulary's tokens of bytes, "<0x00>" to "<0xFF>"; −1: there is none.
  std::array<std::int32_t, 256> byte_token_ids() const;
  /// The ids of the vocabulary's tokens by their text. Throws Error(data), naming `source`, if that is too long.
  ByteTrie vocabulary_trie(const std::string& source) const;

  TokenizerParts parts_;
  RoleTokens roles_;

 private:
  std::string hash_;
};

}  // namespace bert_hpc::tokenize
