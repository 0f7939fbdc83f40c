// Texts that predictions need of each row of the source besides its tokens, e.g. a question's id and context. Shards
// hold them as UTF-8, one row's after the other's; tasks::Task::row_texts says how many a row has. The sequences of a
// row, its windows, are neighbours with one source index and share them.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::data {

class RowTextsWriter {
 public:
  /// Makes the datasets /texts and /text_offsets.
  RowTextsWriter(io::Hdf5File& file, const io::Storage& texts, const io::Storage& offsets);
  /// Appends the texts of the next row.
  void append(std::span<const std::string> texts);
  void finish();

 private:
  io::Appender<std::uint8_t> texts_;
  io::Appender<std::int64_t> offsets_;
  std::int64_t bytes_ = 0;
};

/// Walks the samples of a data set whose shards have texts. Throws Error(data) if they are damaged.
class RowTextsReader {
 public:
  /// `reader`, which keeps source_index(), must outlive it. `hdf5` is held during HDF5 calls.
  RowTextsReader(const ShardReader& reader, std::mutex& hdf5);
  ~RowTextsReader();
  RowTextsReader(const RowTextsReader&) = delete;
  RowTextsReader& operator=(const RowTextsReader&) = delete;

  /// The next sample, from 0 on. False after the last one.
  bool next();

  bool starts_row() const { return starts_row_; }
  /// (Task::row_texts): of the sample's row.
  std::span<const std::string> texts() const { return texts_; }
  std::int64_t sample() const { return sample_; }
  /// The number of the row among those of file(), from 0.
  std::int64_t row() const { return row_ - 1; }
  /// Path of the sample's shard.
  const std::string& file() const { return path_; }
  const io::Hdf5File& hdf5() const { return *file_; }

 private:
  void open(const std::string& file);
  void read_row();
  [[noreturn]] void fail(const std::string& what) const;

  const ShardReader& reader_;
  std::mutex& hdf5_;
  std::optional<io::Hdf5File> file_;
  std::optional<io::Dataset> text_data_, offset_data_;
  std::string path_;
  std::int64_t sample_ = -1, row_ = 0, row_count_ = 0;
  bool starts_row_ = false;
  std::vector<std::string> texts_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace bert_hpc::data
