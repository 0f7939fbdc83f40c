// Reads all of a shard and holds what comes of it to what its reader promises.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/data/shard_file.hpp"
#include "fuzz.hpp"

namespace fuzz {

/// For a model of this task with 20 pieces and 8 positions.
inline void read_shard(const std::string& path, bool verify, const char* task = "classification") {
  bert_hpc::data::ShardLimits limits;
  limits.task = bert_hpc::tasks::find(task);
  limits.vocabulary_size = 20;
  limits.max_length = 8;
  const auto shard = bert_hpc::data::ShardFile::open(
      path, limits, verify ? std::optional(bert_hpc::io::SealPart::everything) : std::nullopt);
  const std::vector<std::int64_t> offsets = shard.read_offsets();
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    require(offsets[s] < offsets[s + 1] && offsets[s + 1] - offsets[s] <= 8, "offsets ascend within the limit");
  }
  shard.read_source_index();
  const auto classes = static_cast<std::int32_t>(shard.info().label_names.size());
  const bool has_words = limits.task->labels == bert_hpc::tasks::Labels::words;
  const bert_hpc::data::Words words = has_words ? shard.read_words(offsets) : bert_hpc::data::Words();
  for (std::size_t s = 0; has_words && s + 1 < offsets.size(); ++s) {
    for (std::int64_t w = words.offsets[s]; w < words.offsets[s + 1]; ++w) {
      const std::int32_t* const word = words.tokens.data() + 2 * w;
      require(word[0] >= 0 && word[0] < word[1] && word[1] <= offsets[s + 1] - offsets[s], "words lie in sequences");
    }
  }
  const bert_hpc::data::LabelColumn labels = shard.read_labels(has_words ? words.offsets : offsets);
  for (const std::int32_t label : labels.words) require(label >= 0 && label < classes, "words have classes");
  for (const std::int32_t label : labels.classes) require(label >= 0 && label < classes, "labels are classes");
  for (const std::uint8_t element : labels.sets) require(element <= 1, "a set holds a name or does not");
  require(labels.sets.empty() || static_cast<std::int64_t>(labels.sets.size()) == shard.info().sequences * classes,
          "a set has an element for each label name");
  for (std::size_t s = 0; 2 * s < labels.spans.size(); ++s) {
    const std::int64_t length = offsets[s + 1] - offsets[s];
    require(labels.spans[2 * s] >= 0 && labels.spans[2 * s + 1] < length, "a span lies within its sequence");
  }
  if (limits.task->labels == bert_hpc::tasks::Labels::spans) shard.read_contexts(offsets);
  for (const std::int32_t level : labels.levels) require(level >= 0, "a level is at least 0");
  if (limits.task->has_groups()) {
    const std::vector<std::int64_t> groups = shard.read_groups();
    require(groups.front() == 0 && groups.back() == shard.info().sequences, "groups hold all sequences");
    for (std::size_t g = 0; g + 1 < groups.size(); ++g) require(groups[g] < groups[g + 1], "no group is empty");
  }
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shard.info().tokens));
  std::vector<std::uint8_t> types(shard.has_token_types() ? ids.size() : 0);
  shard.read_tokens(0, ids, types);
  for (const std::int32_t id : ids) require(id >= 0 && id < 20, "ids lie in the vocabulary");
  for (const std::uint8_t type : types) require(type < 2, "token types lie in the model's");
}

}  // namespace fuzz
