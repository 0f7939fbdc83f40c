// Folders of sentence-transformers: a Hugging Face folder with modules.json and the folders that it names, which
// describe how token embeddings become the embedding of a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "bert_hpc/model/hf_weights.hpp"

namespace bert_hpc::model {

/// Texts that sentence-transformers puts before the texts that it embeds, by the names of their uses.
struct SentencePrompts {
  std::map<std::string, std::string> texts;
  std::string default_name;  ///< of the text that encode() adds without being asked; "": it adds none

  bool operator==(const SentencePrompts&) const = default;
};

struct SentenceModules {
  std::string pooling;     ///< "mean", "cls", "max" or "last"
  bool normalize = false;  ///< embeddings have length 1
  /// In files that are written: how embeddings are compared, "cosine", "dot" or "euclidean".
  std::string similarity = "cosine";
  std::int64_t dimensions = 0;  ///< of an embedding
  std::int64_t max_tokens = 0;  ///< of a text, special tokens included; 0: unknown
  SentencePrompts prompts{};    ///< in files that are written

  bool operator==(const SentenceModules&) const = default;
};

/// The modules of a folder; none if it has no modules.json. Throws Error(files) if these files cannot be read, and
/// Error(input) for modules or poolings that this program does not compute.
std::optional<SentenceModules> read_sentence_modules(const std::filesystem::path& folder);

/// The prompts of a folder; none if it has no config_sentence_transformers.json. Throws Error(files) for a file that is
/// no JSON object or whose prompts are no texts.
SentencePrompts read_sentence_prompts(const std::filesystem::path& folder);

/// Files beside config.json and the weights with which `SentenceTransformer(folder)` makes the same embeddings.
NamedTexts sentence_files(const SentenceModules& modules);

}  // namespace bert_hpc::model
