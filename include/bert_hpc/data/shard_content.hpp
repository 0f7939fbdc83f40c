// What a data set takes of one shard before the first step: everything but tokens that are read later. Plain data, so
// that one rank can read a shard and send this to the others.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "bert_hpc/data/label_column.hpp"
#include "bert_hpc/data/shard_file.hpp"
#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/data/words.hpp"

namespace bert_hpc::data {

struct ShardTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> types;  ///< empty if the shard has none
};

struct ShardContent {
  std::string problem;  ///< why it cannot be used, with its path; "": nothing is wrong, and the rest counts
  std::string task;     ///< name of info.task, which ranks have at different addresses
  ShardInfo info;
  SpecialIds special_ids;
  std::string seal;  ///< io::seal_text()
  bool has_types = false;
  std::vector<std::int32_t> lengths;       ///< (sequences): tokens of each
  LabelColumn labels;                      ///< where the limits ask for them
  Words words;                             ///< of tasks with classes of words
  std::vector<std::int32_t> contexts;      ///< of tasks with answers
  std::vector<std::int64_t> groups;        ///< of tasks that rank candidates
  std::vector<std::int64_t> source_index;  ///< where it was asked for
  ShardTokens tokens;                      ///< where they were asked for
  std::int64_t bytes_read = 0;             ///< of datasets

  /// For core/message.hpp.
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.problem, self.task, self.info, self.special_ids, self.seal, self.has_types, self.lengths,
                    self.labels, self.words, self.contexts, self.groups, self.source_index, self.tokens.ids,
                    self.tokens.types, self.bytes_read);
  }
};

struct ShardParts {
  bool source_index = false;
  bool tokens = false;  ///< all of them
  io::SealPart verified = io::SealPart::tail;
};

/// Opens, checks and reads a shard. What is wrong with it is in `problem`. Throws where there is too little memory.
ShardContent read_content(const std::string& path, const ShardLimits& limits, const ShardParts& parts);

}  // namespace bert_hpc::data
