// ShardFile: one shard, open for reading. Everything that it claims is checked before it is used: the checksum of the
// file or of its blocks, the schema, types and extents; then offsets and labels; ids whenever they are read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/data/label_column.hpp"
#include "bert_hpc/data/shard_schema.hpp"
#include "bert_hpc/data/words.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::data {

/// What a shard must fit. Zeros: whatever the shard says.
struct ShardLimits {
  const tasks::Task* task = &tasks::named({});
  std::int64_t vocabulary_size = 0;  ///< of the model: ids lie below
  std::int64_t max_length = 0;       ///< of the model: max_position_embeddings
  std::int64_t type_vocabulary = 2;  ///< of the model: token types lie below
  bool labels = true;                ///< read and check labels
};

class ShardFile {
 public:
  /// Throws Error(data), its message beginning with the path. `verify`: what of the file is compared with its seal;
  /// blocks of datasets and HDF5's metadata have checksums of their own, which the library verifies when it reads them.
  static ShardFile open(const std::string& path, const ShardLimits& limits, std::optional<io::SealPart> verify);

  /// For tokens alone, of a shard that open() has checked and that is the same still: `info` is what it said then.
  static ShardFile reopen(const std::string& path, const ShardLimits& limits, const ShardInfo& info);

  const std::string& path() const { return path_; }
  const ShardInfo& info() const { return info_; }
  const SpecialIds& special_ids() const { return special_ids_; }
  bool has_token_types() const { return token_types_.has_value(); }

  /// (sequences + 1), checked: from 0, each sequence at least one token and within the limits, up to info().tokens.
  std::vector<std::int64_t> read_offsets() const;
  /// Checked labels of all sequences: read_labels() of label_column.hpp. Only if limits.labels is set and the task has
  /// them. `offsets`: read_offsets(), or of tasks with classes of words Words::offsets.
  LabelColumn read_labels(std::span<const std::int64_t> offsets) const;
  /// (sequences, 2), checked: tokens [begin, end) of the contexts. Only of tasks with answers.
  std::vector<std::int32_t> read_contexts(std::span<const std::int64_t> offsets) const;
  /// Checked: words lie within their sequences, ascending. Only of tasks with classes of words.
  Words read_words(std::span<const std::int64_t> offsets) const;
  /// (groups + 1), checked. Only of tasks that rank candidates.
  std::vector<std::int64_t> read_groups() const;
  /// (sequences): rows of the source text.
  std::vector<std::int64_t> read_source_index() const;

  /// Tokens [begin, begin + ids.size()), checked. token_types: as many, or empty to leave them out.
  void read_tokens(std::int64_t begin, std::span<std::int32_t> ids, std::span<std::uint8_t> token_types) const;

  /// Bytes of datasets that were read from the file.
  std::int64_t bytes_read() const;

 private:
  ShardFile(std::string path, const ShardLimits& limits, io::Hdf5File file);
  void read_attributes();
  io::Dataset counted_dataset(const char* name) const;
  io::Dataset checked_dataset(const char* name, const LabelType& wide, const LabelType* narrow = nullptr) const;
  void check_column(const char* name, const LabelType& type);
  void check_tokens();
  void check_columns();
  void check_texts();
  void check_answers();
  std::int64_t check_words();
  void check_groups();
  void check_longest(std::int64_t longest, std::int64_t longest_sequence_index) const;
  std::string where_sequence(std::int64_t sequence) const;
  std::string where_token(std::int64_t token) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  ShardLimits limits_;
  io::Hdf5File file_;
  ShardInfo info_;
  SpecialIds special_ids_;
  std::optional<io::Dataset> input_ids_, token_types_;
  mutable std::vector<io::Dataset> columns_;  // checked, open, and not read yet
  mutable std::int64_t column_bytes_ = 0;
};

}  // namespace bert_hpc::data
