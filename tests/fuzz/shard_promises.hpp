// Reads all of a shard and holds what comes of it to what its reader promises.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/data/shard_file.hpp"
#include "fuzz.hpp"

namespace fuzz {

/// For a model with 20 pieces and 8 positions.
inline void read_shard(const std::string& path, bool verify) {
  bert_hpc::data::ShardLimits limits;
  limits.vocabulary_size = 20;
  limits.max_length = 8;
  const auto shard = bert_hpc::data::ShardFile::open(path, limits, verify);
  const std::vector<std::int64_t> offsets = shard.read_offsets();
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    require(offsets[s] < offsets[s + 1] && offsets[s + 1] - offsets[s] <= 8, "offsets ascend within the limit");
  }
  shard.read_source_index();
  const auto classes = static_cast<std::int32_t>(shard.info().label_names.size());
  for (const std::int32_t label : shard.read_labels().classes)
    require(label >= 0 && label < classes, "labels are classes");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shard.info().tokens));
  std::vector<std::uint8_t> types(shard.has_token_types() ? ids.size() : 0);
  shard.read_tokens(0, ids, types);
  for (const std::int32_t id : ids) require(id >= 0 && id < 20, "ids lie in the vocabulary");
  for (const std::uint8_t type : types) require(type < 2, "token types lie in the model's");
}

}  // namespace fuzz
