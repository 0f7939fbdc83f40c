// The tokens of all rows between tokenization and the shards, in one scratch file per rank, because shards take rows in
// random order and memory must not grow with the text. The folder is on a file system that all ranks see.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace bert_hpc::prep {

class TokenStore {
 public:
  TokenStore(const std::string& directory, int rank, int ranks);
  ~TokenStore();
  TokenStore(const TokenStore&) = delete;
  TokenStore& operator=(const TokenStore&) = delete;

  /// The rank that tokenizes `row`: runs of neighbouring rows go round, so that all ranks work on all files.
  static int owner(std::int64_t row, int ranks) { return static_cast<int>(row / 64 % ranks); }

  /// Appends the next of this rank's rows. Throws Error(files).
  void append(std::span<const std::int32_t> values);
  /// Everything is on its way to the other ranks. Throws Error(files).
  void finish_writing();

  /// Opens all ranks' files, after all have finished; `lengths` (rows): how many values each row has.
  void open_for_reading(std::vector<std::int32_t> lengths);
  std::int64_t length(std::int64_t row) const { return lengths_[static_cast<std::size_t>(row)]; }
  /// Values [first, first + count) of `row`, written at `out`. Throws Error(files).
  void read(std::int64_t row, std::int64_t first, std::int64_t count, std::int32_t* out) const;

 private:
  std::string path(int rank) const;
  void flush();

  std::string directory_;
  int rank_, ranks_;
  int writer_ = -1;
  std::vector<std::int32_t> block_;
  std::vector<int> readers_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> starts_;  // (rows): place in the owner's file, in values
};

}  // namespace bert_hpc::prep
