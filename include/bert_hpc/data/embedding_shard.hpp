// Files of embeddings that mode embed has written, as shards of a data set: a sequence has the rows of its tokens, or
// one row if it was pooled (input/README.md, "Embeddings").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/data/shard_content.hpp"

namespace bert_hpc::data {

/// Whether the file begins as one of embeddings.
bool is_embedding_file(const std::string& path);

/// Opens, checks and reads all but the rows, like read_content(): ShardInfo::columns and ShardInfo::embedded are set.
/// What is wrong with it is in `problem`: an unfinished run of mode embed, labels of another kind, ….
ShardContent read_embedding_content(const std::string& path, const ShardLimits& limits, const ShardParts& parts);

/// The rows as floats, (rows, columns). Throws Error(data) if a number is not finite, naming file and row.
std::vector<float> read_embedding_rows(const std::string& path);

}  // namespace bert_hpc::data
