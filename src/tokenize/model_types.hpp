// Kind of tokenizer that a tokenizer.json holds. Internal to the module.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace bert_hpc::tokenize {

/// TokenizerKind::model_type of BPE whose words have the mark "▁": byte-level BPE has the model "BPE" too.
inline constexpr const char* metaspace_bpe_model = "BPE with \xE2\x96\x81";

/// TokenizerKind::model_type of the kind that a document is of, or the type of its model if no kind reads it. BPE is
/// that with "▁" if the document splits no bytes, and has bytes to fall back to, a Metaspace, or a normalizer that
/// writes "▁".
std::string model_of(const nlohmann::json& document);

}  // namespace bert_hpc::tokenize
