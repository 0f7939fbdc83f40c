#include "bert_hpc/data/shard_tokenizer.hpp"

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::data {

using tokenize::TokenizerFolder;
using tokenize::TokenizerSettings;

namespace {

std::string vocabulary_text(std::int64_t pieces, const std::string& hash) {
  return core::counted(pieces, "token") + ", hash " + hash;
}

}  // namespace

std::string tokenizer_text(const std::string& shard) {
  const io::Hdf5File file = io::Hdf5File::open_read(shard, core::ExitCode::data);
  if (!file.exists(shard_dataset::tokenizer)) return "";
  const auto bytes = file.read<std::uint8_t>(shard_dataset::tokenizer, shard_max_text);
  return {bytes.begin(), bytes.end()};
}

std::string setting_text(const tokenize::TokenizerKind& kind, const tokenize::TokenizerKey& key,
                         const TokenizerSettings& settings) {
  return std::string(key.name) + " = " + (completed(kind, settings).at(key.name) ? "true" : "false");
}

std::string tokenizer_difference(const TokenizerFolder& model, const ShardInfo& shards, const std::string& file) {
  const std::string remedy = " Prepare the text with [tokenizer] vocabulary = \"" + model.path + "\"";
  if (model.has_vocabulary() && !shards.vocabulary_hash.empty() && model.vocabulary_hash != shards.vocabulary_hash) {
    return "it was prepared with another vocabulary (" +
           vocabulary_text(shards.vocabulary_size, shards.vocabulary_hash) + ") than the model's, " + model.path + "/" +
           model.file + " (" + vocabulary_text(model.pieces, model.vocabulary_hash) +
           "), so its token ids do not match." + remedy + ".";
  }
  const ShardTokenizer theirs = shard_tokenizer(shards.tokenizer, file);
  if (model.kind == nullptr || theirs.kind != model.kind) return "";
  const tokenize::TokenizerKey* const key = first_difference(*model.kind, model.parts.settings, theirs.settings);
  if (key != nullptr && !key->is_choice) {
    return "its text was prepared with " + setting_text(*model.kind, *key, theirs.settings) + ", but the model's " +
           model.says(*key) + "." + remedy + " and " + setting_text(*model.kind, *key, model.parts.settings) + ".";
  }
  if (shards.tokenizer_hash.empty()) return "";
  const std::string own = model.spec_hash();
  if (own.empty() || own == shards.tokenizer_hash) return "";
  return "it was prepared with another tokenizer (specification " + shards.tokenizer_hash + ") than the model's, " +
         model.path + "/" + model.file + " (" + own + "): one vocabulary, but text is split in another way." + remedy +
         ".";
}

bool is_vocabulary_of(const TokenizerFolder& folder, const ShardInfo& shards, std::int64_t vocab_size) {
  if (!folder.has_vocabulary()) return false;
  if (shards.vocabulary_hash.empty()) return folder.pieces <= vocab_size;
  return folder.vocabulary_hash == shards.vocabulary_hash;
}

}  // namespace bert_hpc::data
