// Shards read by several ranks, each by one of them.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
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
  std::vector<std::int64_t> sizes;    ///< (files): bytes; 0 where that cannot be read
  std::vector<std::string> problems;  ///< files that are missing or listed twice

  /// For core/message.hpp.
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.files, self.sizes, self.problems);
  }
};
/// `name`: the input's key, for messages.
ListedShards list_shards(const std::string& name, const std::vector<std::string>& paths);

/// Which shards a rank reads before it sends them, as shards [begin, end). All ranks read one part after the other.
struct Part {
  std::size_t begin, end;
};
/// The parts of `files` shards of `bytes` bytes, in order; part p is rank p mod ranks's. Pure.
std::vector<Part> parts_of(std::size_t files, std::int64_t bytes, int ranks);

/// What one rank reads, all ranks get. A rank that fails, as where there is no memory, still takes part in every
/// exchange, so that no other waits for it; its exception is thrown at the end.
class SharedReading {
 public:
  explicit SharedReading(const ReadingRanks& ranks) : ranks_(ranks) {}

  /// Collective. What `make` returns on rank 0. Throws what it threw there.
  ListedShards once(const std::function<ListedShards()>& make);

  /// Collective. Calls add(f, read(f)) for each of the files, in order: add on each rank, read on one.
  void each(const std::vector<std::string>& files, std::int64_t bytes,
            const std::function<ShardContent(std::size_t)>& read,
            const std::function<void(std::size_t, ShardContent)>& add);

 private:
  void guarded(const std::function<void()>& work);
  template <class T>
  void send(T& value, int root, const T& instead);

  const ReadingRanks& ranks_;
  std::exception_ptr failure_;
};

}  // namespace bert_hpc::data
