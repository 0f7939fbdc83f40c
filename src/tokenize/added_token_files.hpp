// Added tokens of a Hugging Face folder out of the files in which versions of Transformers keep them. Internal to the
// module.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bert_hpc/tokenize/added_tokens.hpp"

namespace bert_hpc::tokenize {

/// Tokens that the folder's files list with ids: added_tokens_decoder of tokenizer_config.json, `config`, or an older
/// added_tokens.json. Appends to `problems`, each with its file. Throws Error(files) for files that cannot be read.
std::vector<AddedToken> listed_tokens(const std::string& path, const nlohmann::json& config,
                                      std::vector<std::string>& problems);
/// The object of special_tokens_map.json; empty if there is none, or tokenizer_config.json replaces it.
nlohmann::json special_tokens_map(const std::string& path, const nlohmann::json& config);

/// As Transformers 5 resolves them. `config`: tokenizer_config.json; `of_json`: those of tokenizer.json;
/// `takes_all_of_json`: the tokenizer's class takes them as they are. Appends to `problems`, each with its file. Throws
/// Error(files) for files that cannot be read.
std::vector<AddedToken> added_tokens_of_folder(const std::string& path, const nlohmann::json& config,
                                               std::vector<AddedToken> of_json, bool takes_all_of_json,
                                               std::vector<std::string>& problems);

}  // namespace bert_hpc::tokenize
