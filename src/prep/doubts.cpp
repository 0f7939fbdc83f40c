// Settings of the tokenizer that are valid and probably a mistake.
#include <filesystem>

#include "bert_hpc/prep/check.hpp"
#include "model_lengths.hpp"

namespace bert_hpc::prep {

std::vector<std::string> doubts(const PrepConfig& config, const tokenize::Tokenizer& tokenizer) {
  std::vector<std::string> all;
  if (!config.tokenizer.conflict.empty()) all.push_back(config.tokenizer.conflict);
  const tokenize::TokenizerKind& kind = tokenizer.kind();
  const std::string doubt = kind.doubt == nullptr ? "" : kind.doubt(tokenizer.tokens(), config.tokenizer.assumed);
  if (!doubt.empty()) all.push_back(doubt);
  const std::filesystem::path folder = model_folder(config.tokenizer);
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
