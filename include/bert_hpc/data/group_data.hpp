// What shards of a task that ranks candidates (tasks::Labels::levels) hold besides tokens: which neighbouring sequences
// are of one query, and, where predictions are made, the ids of queries and candidates.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "bert_hpc/data/row_texts.hpp"
#include "bert_hpc/data/shard_reader.hpp"

namespace bert_hpc::data {

/// A query and its candidates.
struct GroupTexts {
  std::string id;
  std::vector<std::string> candidates;       ///< ids, in the order of the sequences
  std::vector<std::int32_t> further_levels;  ///< from 1 on, of what is relevant to the query and no candidate
};

/// `further_levels` as the shard holds them: "" if there are none.
std::string levels_to_json(const std::vector<std::int32_t>& levels);

/// Reads the groups of a data set, one after the other. Throws Error(data) if the shards lack what predictions are
/// made of, or are damaged.
class GroupReader {
 public:
  /// As RowTextsReader has it.
  GroupReader(const ShardReader& reader, std::mutex& hdf5) : reader_(reader), rows_(reader, hdf5) {}

  /// The next group, from 0 on. False after the last one.
  bool next();
  const GroupTexts& group() const { return group_; }
  std::int64_t number() const { return number_; }  ///< of the group, from 0
  /// Samples [begin, end) of the data set.
  std::int64_t begin() const { return reader_.groups()[static_cast<std::size_t>(number_)]; }
  std::int64_t end() const { return reader_.groups()[static_cast<std::size_t>(number_) + 1]; }

 private:
  void read_further_levels(const std::string& json);

  const ShardReader& reader_;
  RowTextsReader rows_;
  std::int64_t number_ = -1;
  GroupTexts group_;
};

}  // namespace bert_hpc::data
