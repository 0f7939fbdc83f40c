// What a folder's tokenizer lacks: files that can be made from the others, or the tokenizer itself.
#include <filesystem>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"
#include "tokenizer_document.hpp"

namespace bert_hpc::tokenize {

namespace fs = std::filesystem;

std::string missing_tokenizer(const std::string& path) {
  const std::string type = model_type_of(path);
  std::string text =
      path +
      ": holds no tokenizer.json, no vocab.txt, no sentencepiece.bpe.model, no spm.model, and no vocab.json with "
      "merges.txt.";
  std::error_code ignored;
  if (fs::exists(path + "/merges.txt", ignored)) {
    return text + " Its merges.txt belongs to a BPE tokenizer (RoBERTa, GPT-2), whose vocab.json is missing.";
  }
  for (const char* const name : {"spiece.model", "tokenizer.model"}) {
    if (fs::exists(path + "/" + name, ignored)) text += std::string(" Its ") + name + " is not read.";
  }
  if (!type.empty()) text += " Its config.json says model_type = \"" + type + "\".";
  return text +
         " Copy the tokenizer.json or the vocabulary's own files of the same model into it; in Python, "
         "transformers.AutoTokenizer.from_pretrained(NAME).save_pretrained(\"" +
         path + "\") writes tokenizer.json.";
}

std::vector<std::pair<std::string, std::string>> lacking_tokenizer_files(const std::string& path) {
  TokenizerFolder folder = read_tokenizer_folder(path);
  if (!folder.has_vocabulary() || !folder.problems.empty()) return {};
  const bool has_own = folder.file != "tokenizer.json";
  // Without its first switch, such as the case, the vocabulary alone does not describe the tokenizer.
  if (has_own && !folder.kind->keys.empty() && !folder.parts.settings.contains(folder.kind->keys.front().name))
    return {};
  try {
    constexpr std::int64_t any_length = 512;  // of sequences; the vocabulary's files do not have it
    std::vector<std::pair<std::string, std::string>> lacking;
    for (Tokenizer::File& file : folder.kind->make(std::move(folder.parts), path)->files(any_length)) {
      std::error_code ignored;
      if (!is_tokenizer_file(file.name) || fs::exists(path + "/" + file.name, ignored)) continue;
      lacking.emplace_back(file.name, std::move(file.text));
    }
    return lacking;
  } catch (const core::Error&) {
    return {};  // not a vocabulary of its kind: its own file is all that can be passed on
  }
}

}  // namespace bert_hpc::tokenize
