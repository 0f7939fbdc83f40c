// tokenizer.json, the one file that today's Transformers saves a tokenizer in, read as far as it describes a tokenizer
// of one of the kinds in tokenizer_kinds().
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::tokenize {

/// What a tokenizer.json says. Truncation, padding and decoder are not read: they do not change the ids of text.
struct TokenizerJson {
  std::string kind;  ///< TokenizerKind::model_type, or the type of a model that no kind has: "WordPiece", "Trie", …
  /// Its vocabulary is empty if there is a vocabulary_problem; switches are absent if it does not state them. Its
  /// added tokens are not settled.
  TokenizerParts parts;
  std::string vocabulary_problem;  ///< why there is no vocabulary: e.g. the ids are not 0 … n-1, each once; or ""
  std::vector<std::string>
      problems;  ///< why this program's encoder gives other ids than this tokenizer, each a sentence
};

/// Throws Error(files) if the file cannot be read or is not a JSON object, or is longer, deeper or larger than any
/// tokenizer.json. A tokenizer of a kind that is not read is no error here, but one of the problems.
TokenizerJson read_tokenizer_json(const std::string& path);

}  // namespace bert_hpc::tokenize
