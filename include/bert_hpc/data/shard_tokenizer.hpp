// The check that shards were made with the tokenizer of a model. Ids of another tokenizer are other words to a model,
// and nothing else would notice.
#pragma once

#include <cstdint>
#include <string>

#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/tokenize/tokenizer_folder.hpp"

namespace bert_hpc::data {

/// Why shards like these, of which `file` is one, are not for the model in `model`: a sentence to follow their name; ""
/// if they are, or if either side does not state enough to know.
std::string tokenizer_difference(const tokenize::TokenizerFolder& model, const ShardInfo& shards,
                                 const std::string& file);

/// The text of the tokenizer's specification that a shard holds; "" if there is none. Throws Error(data).
std::string tokenizer_text(const std::string& shard);

/// "lowercase = true", of a switch that is known.
std::string setting_text(const tokenize::TokenizerKind& kind, const tokenize::TokenizerKey& key,
                         const tokenize::TokenizerSettings& settings);

/// Whether its vocabulary is the one that the shards were made with; if they do not say, whether it fits into
/// `vocab_size`.
bool is_vocabulary_of(const tokenize::TokenizerFolder& folder, const ShardInfo& shards, std::int64_t vocab_size);

}  // namespace bert_hpc::data
