// Description of the tokenizer in a Hugging Face folder: tokenizer.json, the vocabulary's own files (vocab.txt),
// tokenizer_config.json, older files of added tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::tokenize {

struct TokenizerFolder {
  std::string path{};
  const TokenizerKind* kind = nullptr;  ///< null: it has no tokenizer that is read
  std::string vocabulary_hash{};        ///< as in shards; "" if there is no vocabulary
  std::int64_t pieces = 0;              ///< of the vocabulary, with added tokens
  TokenizerParts parts{};               ///< switches as far as the files state them; if these differ, as Transformers
  TokenizerSettings config_settings{};  ///< what tokenizer_config.json alone states
  std::string file{};                   ///< the name of the vocabulary's file, such as "tokenizer.json"; "": none
  std::vector<std::string> problems{};  ///< why bert_hpc_prep gives other ids than this tokenizer, each with its file
  std::string conflict{};               ///< if tokenizer.json and tokenizer_config.json differ: a sentence; or ""

  bool has_vocabulary() const { return !vocabulary_hash.empty(); }
  /// "DIR/tokenizer_config.json says do_lower_case = true", of a switch that is known.
  std::string says(const TokenizerKey& key) const;
  /// The hash of its specification; "" if a switch is not known or its files do not make a tokenizer.
  std::string spec_hash() const;
};

/// Reads the folder; of the vocabulary's own files and tokenizer.json only `file` if that is given. `wanted`: the kind
/// of files whose names several kinds have; null: the folder says it. A tokenizer of a kind that is not read is no
/// error here, but one of the problems. Throws Error(files) for a file that cannot be read or is not of its format, and
/// if vocab.txt and tokenizer.json hold different vocabularies.
TokenizerFolder read_tokenizer_folder(const std::string& path, const std::string& file = "",
                                      const TokenizerKind* wanted = nullptr);

/// Reads one tokenizer.json, whatever its name is.
TokenizerFolder read_tokenizer_file(const std::string& path);

/// Whether a file of this name is one that a folder's tokenizer is read from.
bool is_tokenizer_file(const std::string& name);

/// Why the folder has no tokenizer that bert_hpc_prep can use, and what to do: complete sentences that name it. Looks
/// at the model_type in its config.json.
std::string missing_tokenizer(const std::string& path);

/// The tokenizer's files of the folder, by name and text, for a folder that people share. A name may be a link (Hugging
/// Face's caches hold only links), perhaps to a private file: only JSON, and what a kind takes for one of its own
/// files, is copied. Throws Error(files) for other text.
std::vector<std::pair<std::string, std::string>> copied_tokenizer_files(const std::string& path);

/// The vocabulary's files that the folder lacks, by name and text, made from the ones that it has; none if it has no
/// vocabulary, or a tokenizer that another file would not describe.
std::vector<std::pair<std::string, std::string>> lacking_tokenizer_files(const std::string& path);

}  // namespace bert_hpc::tokenize
