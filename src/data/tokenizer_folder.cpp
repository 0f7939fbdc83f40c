#include "bert_hpc/data/tokenizer_folder.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bounded_json.hpp"
#include "text_settings_json.hpp"

namespace bert_hpc::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t longest_vocabulary = std::int64_t{64} << 20;  // bytes; the largest known have 4 MB

TextSettings read_settings(const std::string& file) {
  const nlohmann::json json = parse_bounded_json(core::read_text_file(file, longest_json));
  if (!json.is_object()) {
    throw core::Error(core::ExitCode::files,
                      file + ": is not a JSON object, or is nested too deeply; write it again or remove it.");
  }
  return read_text_settings(json, &TextSetting::hugging_face_name);
}

std::string vocabulary_text(std::int64_t pieces, const std::string& hash) {
  return core::counted(pieces, "token") + ", hash " + hash;
}

}  // namespace

TokenizerFolder read_tokenizer_folder(const std::string& path) {
  TokenizerFolder folder;
  folder.path = path;
  std::error_code ignored;
  const std::string vocabulary = path + "/vocab.txt", settings = path + "/tokenizer_config.json";
  if (fs::is_regular_file(vocabulary, ignored)) {
    const auto pieces = core::split_lines(core::read_text_file(vocabulary, longest_vocabulary));
    folder.pieces = static_cast<std::int64_t>(pieces.size());
    folder.vocabulary_hash = core::hash_of_lines(pieces);
  }
  if (fs::is_regular_file(settings, ignored)) folder.text = read_settings(settings);
  return folder;
}

std::string tokenizer_difference(const TokenizerFolder& model, const ShardInfo& shards, const TextSettings& text) {
  const std::string mend = " Prepare the text with [tokenizer] vocabulary = \"" + model.path + "\"";
  if (model.has_vocabulary() && !shards.vocabulary_hash.empty() && model.vocabulary_hash != shards.vocabulary_hash) {
    return "it was prepared with another vocabulary (" +
           vocabulary_text(shards.vocabulary_size, shards.vocabulary_hash) + ") than the model's, " + model.path +
           "/vocab.txt (" + vocabulary_text(model.pieces, model.vocabulary_hash) + "), so its token ids do not match." +
           mend + ".";
  }
  const TextSetting* const setting = first_difference(model.text, text);
  if (setting == nullptr) return "";
  const std::string theirs = word(*(text.completed().*setting->value)),
                    own = word(*(model.text.completed().*setting->value));
  return "its text was prepared with " + (setting->name + (" = " + theirs)) + ", and the model's " + model.path +
         "/tokenizer_config.json says " + setting->hugging_face_name + " = " + own + "." + mend + " and " +
         setting->name + " = " + own + ".";
}

bool is_vocabulary_of(const TokenizerFolder& folder, const ShardInfo& shards, std::int64_t vocab_size) {
  if (!folder.has_vocabulary()) return false;
  if (shards.vocabulary_hash.empty()) return folder.pieces <= vocab_size;
  return folder.vocabulary_hash == shards.vocabulary_hash;
}

}  // namespace bert_hpc::data
