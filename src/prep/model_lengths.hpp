// Longest sequences of the model beside a vocabulary, in tokens, as the files of its folder say. Internal to the
// module.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bert_hpc/prep/prep_config.hpp"

namespace bert_hpc::prep {

/// The model's folder that the vocabulary is in; empty for a vocabulary by itself.
std::filesystem::path model_folder(const TokenizerConfig& tokenizer);

/// max_position_embeddings of the folder's config.json; 0 if it is not known.
std::int64_t positions_of(const std::filesystem::path& folder);

/// max_seq_length of the folder's sentence_bert_config.json, at which sentence-transformers cuts texts; 0 if it is not
/// known.
std::int64_t sentence_tokens_of(const std::filesystem::path& folder);

}  // namespace bert_hpc::prep
