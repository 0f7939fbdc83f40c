// Added tokens as tokenizer.json and tokenizer_config.json write them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "bert_hpc/tokenize/added_tokens.hpp"

namespace bert_hpc::tokenize {

/// An object with "content" and perhaps "id" and the switches, or a text alone, which is that of a special token. None
/// of anything else.
std::optional<AddedToken> added_token_of(const nlohmann::json& token);

}  // namespace bert_hpc::tokenize
