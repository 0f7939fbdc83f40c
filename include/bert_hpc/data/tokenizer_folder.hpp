// What a folder's vocab.txt and tokenizer_config.json (Hugging Face's names) tell of its tokenizer, and whether shards
// were made with that one. Ids of another vocabulary are other words to a model, and nothing else would notice.
#pragma once

#include <cstdint>
#include <string>

#include "bert_hpc/data/shard_schema.hpp"

namespace bert_hpc::data {

struct TokenizerFolder {
  std::string path;
  std::string vocabulary_hash;  ///< as in shards; "" where there is no vocab.txt
  std::int64_t pieces = 0;      ///< of vocab.txt
  TextSettings text;            ///< as far as tokenizer_config.json says

  bool has_vocabulary() const { return !vocabulary_hash.empty(); }
};

/// Throws Error(files) for a file that is there and cannot be read, or is no JSON object.
TokenizerFolder read_tokenizer_folder(const std::string& path);

/// Why shards like these are not for the model in `model`: a sentence to follow their name; "" where they are, or
/// where either side does not say enough to know. `text`: how the shards' text was read.
std::string tokenizer_difference(const TokenizerFolder& model, const ShardInfo& shards, const TextSettings& text);

/// Is its vocab.txt the one that the shards were made with? Where they do not say, one that fits into `vocab_size`.
bool is_vocabulary_of(const TokenizerFolder& folder, const ShardInfo& shards, std::int64_t vocab_size);

}  // namespace bert_hpc::data
