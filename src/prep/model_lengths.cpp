#include "model_lengths.hpp"

#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_depth.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

namespace bert_hpc::prep {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t max_config_bytes = std::int64_t{1} << 24;
constexpr int deepest_config = 100;

/// A number above 0 of a JSON file; 0 if there is none.
std::int64_t number_in(const fs::path& path, const char* key) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return 0;
  try {
    const std::string text = core::read_text_file(path.string(), max_config_bytes);
    if (core::nests_too_deep(text, deepest_config)) return 0;
    const nlohmann::json config = core::parse_json(text);
    const auto found = config.is_object() ? config.find(key) : config.end();
    const bool known = config.is_object() && found != config.end() && found->is_number_unsigned();
    return known ? found->get<std::int64_t>() : 0;
  } catch (const core::Error&) {
    return 0;
  }
}

}  // namespace

fs::path model_folder(const TokenizerConfig& tokenizer) {
  const fs::path vocabulary = tokenizer.vocabulary;
  std::error_code ignored;
  if (tokenizer.vocabulary.empty() || fs::is_directory(vocabulary, ignored)) return vocabulary;
  if (!tokenize::is_tokenizer_file(vocabulary.filename().string())) return {};
  return vocabulary.has_parent_path() ? vocabulary.parent_path() : fs::path(".");
}

std::int64_t positions_of(const fs::path& folder) {
  return folder.empty() ? 0 : number_in(folder / "config.json", "max_position_embeddings");
}

std::int64_t sentence_tokens_of(const fs::path& folder) {
  return folder.empty() ? 0 : number_in(folder / "sentence_bert_config.json", "max_seq_length");
}

}  // namespace bert_hpc::prep
