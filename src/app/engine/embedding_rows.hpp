// Rows of pooled embeddings as floats in host memory, read from files piece by piece.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "bert_hpc/data/shard_reader.hpp"

namespace bert_hpc::app {

/// Throws Error(data) unless this file is still the one whose labels and lengths the reader knows.
void require_same(const data::ShardReader& reader, std::size_t file);

class EmbeddingRows {
 public:
  /// `reader` has embeddings, one for each sequence, and must outlive it. `hdf5` is held during HDF5 calls.
  EmbeddingRows(const data::ShardReader& reader, std::mutex& hdf5, bool normalizes);

  std::int64_t columns() const { return reader_.info().columns; }
  /// The rows of these sequences, ascending ones; rows (sequences, columns), of length 1 if it normalizes. Throws
  /// Error(data) on numbers that are not finite and on files that were replaced.
  void read(std::span<const std::int64_t> sequences, std::span<float> rows);

 private:
  void read_file(std::size_t file, std::int64_t first, std::int64_t count);
  void take(std::int64_t row, std::span<float> to) const;

  const data::ShardReader& reader_;
  std::mutex& hdf5_;
  bool normalizes_;
  std::vector<std::int64_t> begins_;  // (files + 1): first sequence of each
  std::size_t checked_ = 0;           // files that are known to be the same
  std::vector<std::byte> values_;     // of the rows that were read last, as they are stored
  std::vector<float> scales_;
};

}  // namespace bert_hpc::app
