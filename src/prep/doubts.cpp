// Settings of the tokenizer that are valid and probably a mistake.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_depth.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/prep/check.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

namespace bert_hpc::prep {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t max_config_bytes = std::int64_t{1} << 24;
constexpr int deepest_config = 100;

/// The model's folder that the vocabulary is in; empty for a vocabulary by itself.
fs::path model_folder(const TokenizerConfig& tokenizer) {
  const fs::path vocabulary = tokenizer.vocabulary;
  std::error_code ignored;
  if (tokenizer.vocabulary.empty() || fs::is_directory(vocabulary, ignored)) return vocabulary;
  if (!tokenize::is_tokenizer_file(vocabulary.filename().string())) return {};
  return vocabulary.has_parent_path() ? vocabulary.parent_path() : fs::path(".");
}

/// max_position_embeddings of the config.json in `folder`; 0 if it is not known.
std::int64_t positions_of(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::error_code ignored;
  if (folder.empty() || !fs::is_regular_file(path, ignored)) return 0;
  try {
    const std::string text = core::read_text_file(path.string(), max_config_bytes);
    if (core::nests_too_deep(text, deepest_config)) return 0;
    const nlohmann::json config = core::parse_json(text);
    const auto found = config.is_object() ? config.find("max_position_embeddings") : config.end();
    const bool known = config.is_object() && found != config.end() && found->is_number_unsigned();
    return known ? found->get<std::int64_t>() : 0;
  } catch (const core::Error&) {
    return 0;
  }
}

}  // namespace

std::vector<std::string> doubts(const PrepConfig& config, const tokenize::Tokenizer& tokenizer) {
  std::vector<std::string> all;
  if (!config.tokenizer.conflict.empty()) all.push_back(config.tokenizer.conflict);
  const tokenize::TokenizerKind& kind = tokenizer.kind();
  const std::string doubt = kind.doubt == nullptr ? "" : kind.doubt(tokenizer.tokens(), config.tokenizer.assumed);
  if (!doubt.empty()) all.push_back(doubt);
  const fs::path folder = model_folder(config.tokenizer);
  const std::int64_t positions = positions_of(folder), most = config.tokenizer.max_tokens;
  if (positions > 0 && most > positions) {
    all.push_back(
        "[tokenizer] max_tokens = " + std::to_string(most) + ", but the model in " + folder.string() + " takes " +
        std::to_string(positions) +
        " tokens at most (max_position_embeddings in its config.json): bert_hpc will refuse longer sequences. "
        "Set max_tokens = " +
        std::to_string(positions) + ".");
  }
  return all;
}

}  // namespace bert_hpc::prep
