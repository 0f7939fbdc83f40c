// Description of the tokenizer in a Hugging Face folder (vocab.txt, tokenizer.json, tokenizer_config.json, older files
// of added tokens), and the check that shards were made with it. Ids of another vocabulary are other words to a model,
// and nothing else would notice.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/tokenize/added_tokens.hpp"

namespace bert_hpc::data {

struct TokenizerFolder {
  std::string path{};
  std::string vocabulary_hash{};  ///< as in shards; "" where there is no WordPiece vocabulary
  std::int64_t pieces = 0;        ///< of the vocabulary, with added tokens
  TextSettings text{};            ///< as far as the files say; where they differ, as Transformers resolves it
  TextSettings config_text{};     ///< what tokenizer_config.json alone says
  std::string file{};             ///< the name of the vocabulary's file: "vocab.txt" or "tokenizer.json"; "": none
  std::vector<std::string> vocabulary{};      ///< the pieces by id
  std::vector<tokenize::AddedToken> added{};  ///< settled (tokenize::settle_added_tokens())
  std::vector<std::string> problems{};  ///< why bert_hpc_prep gives other ids than this tokenizer, each with its file
  std::string conflict{};               ///< where tokenizer.json and tokenizer_config.json differ: a sentence; or ""

  bool has_vocabulary() const { return !vocabulary_hash.empty(); }
  /// "DIR/tokenizer_config.json says do_lower_case = true", of a setting that `text` has.
  std::string says(const TextSetting& setting) const;
};

/// Reads the folder; of vocab.txt and tokenizer.json only `file` where that is given. A tokenizer of another kind than
/// WordPiece is no error here, but one of the problems. Throws Error(files) for a file that cannot be read or is not of
/// its format, and where vocab.txt and tokenizer.json hold different vocabularies.
TokenizerFolder read_tokenizer_folder(const std::string& path, const std::string& file = "");

/// Reads one tokenizer.json, whatever its name is.
TokenizerFolder read_tokenizer_file(const std::string& path);

/// Why the folder has no tokenizer that bert_hpc_prep can use, and what to do: complete sentences that name it. Looks
/// at the model_type in its config.json.
std::string missing_tokenizer(const std::string& path);

/// Those of vocab.txt and tokenizer.json that the folder lacks, by name and text, made from the one that it has; none
/// where it has no vocabulary, or a tokenizer that another file would not describe.
std::vector<std::pair<std::string, std::string>> lacking_tokenizer_files(const std::string& path);

/// Why shards like these are not for the model in `model`: a sentence to follow their name; "" where they are, or
/// where either side does not say enough to know. `text`: how the shards' text was read.
std::string tokenizer_difference(const TokenizerFolder& model, const ShardInfo& shards, const TextSettings& text);

/// Is its vocabulary the one that the shards were made with? Where they do not say, one that fits into `vocab_size`.
bool is_vocabulary_of(const TokenizerFolder& folder, const ShardInfo& shards, std::int64_t vocab_size);

}  // namespace bert_hpc::data
