// tokenizer.json, the one file that today's Transformers saves a tokenizer in, read and written as far as it describes
// a WordPiece tokenizer of BERT's kind.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/text_form.hpp"
#include "bert_hpc/tokenize/vocabulary.hpp"

namespace bert_hpc::tokenize {

/// What a tokenizer.json says. Truncation, padding and decoder are not read: they do not change the ids of text.
struct TokenizerJson {
  std::string kind;                   ///< type of its model: "WordPiece", "BPE", "Unigram", "WordLevel", …
  std::vector<std::string> pieces;    ///< of WordPiece, by id; empty where there is a vocabulary_problem
  std::string vocabulary_problem;     ///< why there are no pieces: e.g. the ids are not 0 … n-1, each once; or ""
  std::optional<TextForm> form;       ///< of its BertNormalizer, if it has one
  std::vector<std::string> problems;  ///< why WordPieceEncoder gives other ids than this tokenizer, each a sentence
};

/// Throws Error(files) where the file cannot be read or is not a JSON object, or is longer, deeper or larger than any
/// tokenizer.json. A tokenizer of another kind is no error here, but one of the problems.
TokenizerJson read_tokenizer_json(const std::string& path);

/// The text of a tokenizer.json, byte for byte as Transformers 5 saves the same tokenizer. A piece that the vocabulary
/// has twice is written once, with its last id.
std::string tokenizer_json_text(const Vocabulary& vocabulary, const TextForm& form);

}  // namespace bert_hpc::tokenize
