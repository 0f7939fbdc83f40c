// Rows of the source text whose sequences are windows: neighbours of one shard with one source index. A data set in
// which each row is one sequence needs none of this.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/data/shard_reader.hpp"

namespace bert_hpc::data {

class SourceRows {
 public:
  /// No rows: each sequence is one.
  SourceRows() = default;
  /// Rows of a data set that keeps source_index(), with the labels of their first sequences. No rows if each sequence
  /// is one, or if the data set is planned. Throws Error(data) if sequences of one row have different labels.
  explicit SourceRows(const ShardReader& reader);

  bool has_windows() const { return !begins_.empty(); }
  std::int64_t count() const { return std::ssize(begins_) - 1; }  ///< rows; with has_windows()
  /// Sequences [begin(row), begin(row + 1)) are the row's windows.
  std::int64_t begin(std::int64_t row) const { return begins_[static_cast<std::size_t>(row)]; }

  /// (rows), of sets and of several label columns (rows, label names); empty unless the data set has such labels.
  std::span<const std::int32_t> classes() const { return classes_; }
  std::span<const float> values() const { return values_; }
  std::span<const std::uint8_t> sets() const { return sets_; }

  std::int64_t memory_bytes() const;

 private:
  std::vector<std::int64_t> begins_;  // (rows + 1)
  std::vector<std::int32_t> classes_;
  std::vector<float> values_;
  std::vector<std::uint8_t> sets_;
};

}  // namespace bert_hpc::data
