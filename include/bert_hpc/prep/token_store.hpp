// The tokens of all sequences between tokenization and the shards, in one scratch file per rank, because shards take
// rows in random order and memory must not grow with the text. The folder is on a file system that all ranks see.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/data/sequence_table.hpp"

namespace bert_hpc::prep {

class TokenStore {
 public:
  static constexpr std::int64_t rows_of_block = 64;  ///< neighbours that one rank tokenizes

  /// Its files are called "NAME-RANK".
  TokenStore(const std::string& directory, int rank, int ranks, const std::string& name = "tokens");
  ~TokenStore();
  TokenStore(const TokenStore&) = delete;
  TokenStore& operator=(const TokenStore&) = delete;

  /// The rank that tokenizes `row`: blocks of neighbouring rows go round, so that all ranks work on all files.
  static int owner(std::int64_t row, int ranks) { return static_cast<int>(row / rows_of_block % ranks); }

  /// Appends to the next sequence of this rank's rows. Throws Error(files).
  void append(std::span<const std::int32_t> values);
  /// Everything is on its way to the other ranks. Throws Error(files).
  void finish_writing();

  /// Opens all ranks' files, after all have finished. `counts` (rows): sequences of each row; `lengths` (sequences of
  /// all rows, one row's after the other's): how many values each has.
  void open_for_reading(std::vector<std::int32_t> counts, std::vector<std::int32_t> lengths);
  struct Range {
    std::int64_t begin, end;
  };
  /// The numbers of a row's sequences.
  Range sequences_of(std::int64_t row) const {
    const std::int64_t begin = counts_.begin(row);
    return {begin, begin + counts_.length(row)};
  }
  std::int32_t count(std::int64_t row) const { return counts_.length(row); }  ///< of a row's sequences
  std::int64_t row_of(std::int64_t sequence) const;
  std::int64_t length(std::int64_t sequence) const { return lengths_.length(sequence); }
  /// The values of a sequence of `row`, in a mapped file: the process ends where the file system fails to read it.
  std::span<const std::int32_t> values(std::int64_t sequence, std::int64_t row) const;

 private:
  static constexpr std::int64_t stride = 64;

  std::string path(int rank) const;
  void flush();

  std::string directory_, name_;
  int rank_, ranks_;
  int writer_ = -1;
  std::vector<std::int32_t> buffer_;
  std::vector<std::span<const std::int32_t>> files_;  // (ranks): each rank's file, mapped
  // Eight bytes a row and a little more, because there may be hundreds of millions.
  data::SequenceTable counts_;             // (rows): sequences of each
  data::SequenceTable lengths_;            // (sequences): values of each
  std::vector<std::int64_t> row_at_;       // the row of every stride-th sequence
  std::vector<std::int64_t> block_begin_;  // (blocks): place of its first value in its owner's file
};

}  // namespace bert_hpc::prep
