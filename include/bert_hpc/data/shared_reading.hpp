// Shards read by several ranks, each by one of them.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bert_hpc/core/message.hpp"
#include "bert_hpc/data/shard_content.hpp"
#include "bert_hpc/data/shard_reader.hpp"

namespace bert_hpc::data {

/// The files of a data set.
struct ListedShards {
  std::vector<std::string> files;
  std::vector<std::int64_t> sizes;    ///< (files): bytes; 0 if that cannot be read
  std::vector<std::int64_t> ends;     ///< (paths): the end of each path's files
  std::vector<std::string> problems;  ///< files that are missing or listed twice

  /// For core/message.hpp.
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.files, self.sizes, self.ends, self.problems);
  }
};
/// `name`: the input's key, for messages. repeats (paths): how often each path's files follow one another; empty: once.
ListedShards list_shards(const std::string& name, const std::vector<std::string>& paths,
                         const std::vector<std::int64_t>& repeats = {});

/// Which shards a rank reads before it sends them, as shards [begin, end). All ranks read one part after the other.
struct Part {
  std::size_t begin, end;
};
/// The parts of shards of these sizes (bytes), in order; part p is rank p mod ranks's. Pure.
std::vector<Part> parts_of(std::span<const std::int64_t> sizes, int ranks);

/// What one rank reads, all ranks get. Where a rank fails, as without memory, it still takes part in the exchange until
/// all ranks know: then its exception is thrown there, and the other ranks return without a result.
class SharedReading {
 public:
  explicit SharedReading(const ReadingRanks& ranks) : ranks_(ranks) {}

  /// Collective. What `make` returns on rank 0; nothing if a rank has failed.
  std::optional<ListedShards> once(const std::function<ListedShards()>& make);

  /// Collective. Calls add(f, read(f)) for each shard f, in order: add on each rank, read on one. sizes (shards):
  /// bytes. False if another rank has failed.
  bool each(std::span<const std::int64_t> sizes, const std::function<ShardContent(std::size_t)>& read,
            const std::function<void(std::size_t, ShardContent)>& add);

 private:
  void guarded(const std::function<void()>& work);
  bool all_well();
  template <class T>
  bool send(T& value, int root);

  const ReadingRanks& ranks_;
  std::exception_ptr failure_;
};

}  // namespace bert_hpc::data
