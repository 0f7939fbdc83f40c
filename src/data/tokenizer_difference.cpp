// What follows from a folder's tokenizer: shards that do not go with it, files that it lacks, why it has none.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/data/tokenizer_folder.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "bounded_json.hpp"

namespace bert_hpc::data {
namespace {

namespace fs = std::filesystem;

std::string vocabulary_text(std::int64_t pieces, const std::string& hash) {
  return core::counted(pieces, "token") + ", hash " + hash;
}

/// The model_type of the folder's config.json; "" where it does not say.
std::string model_type(const std::string& path) {
  try {
    const nlohmann::json config = parse_bounded_json(core::read_text_file(path + "/config.json", longest_json));
    const auto type = config.is_object() ? config.find("model_type") : config.end();
    return type != config.end() && type->is_string() ? core::printable(type->get<std::string>(), 60) : "";
  } catch (const core::Error&) {
    return "";  // it is only asked for more words
  }
}

/// The kind of tokenizer of a model_type; "" of one that is not known here.
std::string tokenizer_kind(const std::string& type) {
  constexpr std::pair<const char*, const char*> kinds[] = {{"bert", "WordPiece"},      {"distilbert", "WordPiece"},
                                                           {"electra", "WordPiece"},   {"mobilebert", "WordPiece"},
                                                           {"roberta", "BPE"},         {"gpt2", "BPE"},
                                                           {"modernbert", "BPE"},      {"bart", "BPE"},
                                                           {"longformer", "BPE"},      {"deberta", "BPE"},
                                                           {"gpt_neox", "BPE"},        {"llama", "BPE"},
                                                           {"xlm-roberta", "Unigram"}, {"albert", "Unigram"},
                                                           {"camembert", "Unigram"},   {"deberta-v2", "Unigram"},
                                                           {"t5", "Unigram"}};
  for (const auto& [name, kind] : kinds) {
    if (type == name) return kind;
  }
  return "";
}

}  // namespace

std::string missing_tokenizer(const std::string& path) {
  const std::string type = model_type(path), kind = tokenizer_kind(type);
  std::string text = path + ": holds neither vocab.txt nor tokenizer.json.";
  if (!kind.empty() && tokenize::find_tokenizer_model(kind) == nullptr) {
    return text + " Its config.json says model_type = \"" + type + "\", whose tokenizer is " + kind +
           "; this version reads " + tokenize::readable_tokenizers() + ", which \"bert\" models have.";
  }
  std::error_code ignored;
  if (fs::exists(path + "/merges.txt", ignored)) {
    return text + " Its merges.txt belongs to a BPE tokenizer (RoBERTa, GPT-2); this version reads " +
           tokenize::readable_tokenizers() + ".";
  }
  if (!type.empty()) text += " Its config.json says model_type = \"" + type + "\".";
  return text +
         " Copy the vocab.txt or the tokenizer.json of the same model into it; in Python, "
         "transformers.AutoTokenizer.from_pretrained(NAME).save_pretrained(\"" +
         path + "\") writes tokenizer.json.";
}

std::vector<std::pair<std::string, std::string>> lacking_tokenizer_files(const std::string& path) {
  std::error_code ignored;
  const bool lines = fs::exists(path + "/vocab.txt", ignored), whole = fs::exists(path + "/tokenizer.json", ignored);
  if (lines == whole) return {};
  TokenizerFolder folder = read_tokenizer_folder(path);
  if (!folder.has_vocabulary() || !folder.problems.empty()) return {};
  const std::string lacking = lines ? "tokenizer.json" : "vocab.txt";
  if (lines && !folder.text.lowercase) return {};  // unknown: there is nothing to compare
  try {
    constexpr std::int64_t any_length = 512;  // of sequences; neither file has it
    const auto tokenizer = tokenize::wordpiece_kind().make(std::move(folder.vocabulary), std::move(folder.added),
                                                           folder.text.form(), path);
    for (tokenize::Tokenizer::File& file : tokenizer->files(any_length)) {
      if (file.name == lacking) return {{lacking, std::move(file.text)}};
    }
    return {};
  } catch (const core::Error&) {
    return {};  // not a vocabulary of BERT's kind: its own file is all that can be passed on
  }
}

std::string tokenizer_difference(const TokenizerFolder& model, const ShardInfo& shards, const TextSettings& text) {
  const std::string remedy = " Prepare the text with [tokenizer] vocabulary = \"" + model.path + "\"";
  if (model.has_vocabulary() && !shards.vocabulary_hash.empty() && model.vocabulary_hash != shards.vocabulary_hash) {
    return "it was prepared with another vocabulary (" +
           vocabulary_text(shards.vocabulary_size, shards.vocabulary_hash) + ") than the model's, " + model.path + "/" +
           model.file + " (" + vocabulary_text(model.pieces, model.vocabulary_hash) +
           "), so its token ids do not match." + remedy + ".";
  }
  const TextSetting* const setting = first_difference(model.text, text);
  if (setting == nullptr) return "";
  const std::string theirs = word(*(text.completed().*setting->value)),
                    own = word(*(model.text.completed().*setting->value));
  return "its text was prepared with " + (setting->name + (" = " + theirs)) + ", but the model's " +
         model.says(*setting) + "." + remedy + " and " + setting->name + " = " + own + ".";
}

bool is_vocabulary_of(const TokenizerFolder& folder, const ShardInfo& shards, std::int64_t vocab_size) {
  if (!folder.has_vocabulary()) return false;
  if (shards.vocabulary_hash.empty()) return folder.pieces <= vocab_size;
  return folder.vocabulary_hash == shards.vocabulary_hash;
}

}  // namespace bert_hpc::data
