// The tokens of all sequences between tokenization and the shards, in one scratch file per rank, because shards take
// rows in random order and memory must not grow with the text. The folder is on a file system that all ranks see.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/narrow_array.hpp"

namespace bert_hpc::prep {

/// Bytes of a value in the scratch files: `narrow` holds 0 to 65,535.
enum class ValueWidth { narrow = 2, whole = 4 };

class TokenStore {
 public:
  static constexpr std::int64_t rows_of_block = 64;  ///< neighbours that one rank tokenizes

  /// Its files are called "NAME-RANK".
  TokenStore(const std::string& directory, int rank, int ranks, ValueWidth width, const std::string& name = "tokens");
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
  /// all rows, one row's after the other's): how many values each has. Throws Error(files), and Error(data) beyond
  /// `most_rows` sequences.
  void open_for_reading(core::NarrowArray counts, core::NarrowArray lengths);
  struct Range {
    std::int64_t begin, end;
  };
  /// The numbers of a row's sequences.
  Range sequences_of(std::int64_t row) const {
    const std::int64_t first = row / rows_of_block * rows_of_block;
    const std::int64_t begin =
        first_of_block(row).sequence + counts_.sum(static_cast<std::size_t>(first), static_cast<std::size_t>(row));
    return {begin, begin + count(row)};
  }
  std::int32_t count(std::int64_t row) const { return counts_[static_cast<std::size_t>(row)]; }  ///< of its sequences
  std::int64_t row_of(std::int64_t sequence) const;
  std::int64_t length(std::int64_t sequence) const { return lengths_[static_cast<std::size_t>(sequence)]; }

  /// Copies values [from, from + out.size()) of a sequence of `row`, from a mapped file: the process ends where the
  /// file system fails to read it.
  void read(std::int64_t sequence, std::int64_t row, std::int64_t from, std::span<std::int32_t> out) const;
  /// Prefetch memory: offsets of the sequences of `row`, and, soon after, a sequence itself.
  void prefetch_offsets(std::int64_t row) const;
  void prefetch(std::int64_t sequence, std::int64_t row) const;

 private:
  static constexpr std::int64_t stride = 64;
  /// Begin of a block of rows.
  struct First {
    std::int64_t sequence;  ///< its first
    std::int64_t value;     ///< index of its first value in its owner's file
  };

  std::string path(int rank) const;
  void flush();
  const First& first_of_block(std::int64_t row) const { return blocks_[static_cast<std::size_t>(row / rows_of_block)]; }
  const std::byte* address_of(std::int64_t sequence, std::int64_t row) const;

  std::string directory_, name_;
  int rank_, ranks_;
  std::size_t width_;  // bytes of a value
  int writer_ = -1;
  std::vector<std::byte> buffer_;
  std::vector<std::span<const std::byte>> files_;  // (ranks): each rank's file, mapped
  core::NarrowArray counts_;                       // (rows): sequences of each
  core::NarrowArray lengths_;                      // (sequences): values of each
  std::vector<First> blocks_;                      // (blocks of rows)
  std::vector<std::int64_t> row_at_;               // the row of every stride-th sequence, unless each row has one
};

}  // namespace bert_hpc::prep
