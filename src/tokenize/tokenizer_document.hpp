// The JSON of a tokenizer.json, read once: its vocabulary and its merges as flat lists, all else as a small document.
// Files may be hostile, so length, depth and the number of values are limited. Internal to the module.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bert_hpc::tokenize {

struct VocabularyEntry {
  std::string piece;
  std::int64_t id = 0;  ///< -1: the file holds something else than a whole number from 0 on
};

struct ScoredPiece {
  std::string piece;
  double score = 0;
  bool is_valid = false;  ///< the file holds a text and a number
};

struct TokenizerDocument {
  nlohmann::json json;                   ///< an object; its model.vocab and model.merges are empty lists or objects
  std::vector<ScoredPiece> scored;       ///< of model.vocab if that is a list, as Unigram has it
  std::vector<VocabularyEntry> entries;  ///< of model.vocab where that is an object, in the file's order
  bool too_many_entries = false;         ///< more than max_entries: the list is cut there
  std::vector<std::string> merges;       ///< of model.merges, "left right"; "" for an element of another form
};

/// A folder's tokenizer_config.json: an object, empty if there is no file.
struct ConfigFile {
  nlohmann::json json;
  std::string path;
};

/// The model_type of the folder's config.json; "" if it does not say.
std::string model_type_of(const std::string& folder);

inline constexpr std::size_t max_entries = std::size_t{1} << 20;  ///< pieces that a vocabulary may have

/// Throws Error(files) if the file cannot be read, is longer or nests deeper than any tokenizer.json, or is not a
/// JSON object. A key that occurs twice in one object is refused too; in model.vocab it is left to the caller.
TokenizerDocument read_tokenizer_document(const std::string& path);

/// The same of a vocab.json, an object of tokens and ids: a document that has nothing but model.vocab.
TokenizerDocument read_vocabulary_document(const std::string& path);

}  // namespace bert_hpc::tokenize
