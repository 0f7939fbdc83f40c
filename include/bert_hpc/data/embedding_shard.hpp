// Files of embeddings that mode embed has written, as shards of a data set: a sequence has the rows of its tokens, or
// one row if it was pooled (input/README.md, "Embeddings").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bert_hpc/data/shard_content.hpp"

namespace bert_hpc::data {

/// Whether the file begins as one of embeddings.
bool is_embedding_file(const std::string& path);

/// Opens, checks and reads all but the rows, like read_content(): ShardInfo::columns and ShardInfo::embedded are set.
/// What is wrong with it is in `problem`: an unfinished run of mode embed, labels of another kind, ….
ShardContent read_embedding_content(const std::string& path, const ShardLimits& limits, const ShardParts& parts);

/// Bytes of a row: its numbers in ShardInfo::row_type, and with "int8" its scale, a float.
std::int64_t embedding_value_bytes(const ShardInfo& info);
std::int64_t embedding_scale_bytes(const ShardInfo& info);

/// Reads rows from `first` on as they are stored: `values` (embedding_value_bytes() for each), with "int8" `scales`
/// (one for each). Throws Error(data) if a number is not finite, naming file and row.
void read_embedding_rows(const std::string& path, const ShardInfo& info, std::int64_t first,
                         std::span<std::byte> values, std::span<float> scales);

}  // namespace bert_hpc::data
